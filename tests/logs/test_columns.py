"""The table of roles, and everything that is made from it."""

from dataclasses import fields
from inspect import signature

import pyarrow as pa
import pytest

import piwo
from piwo.cli.log_options import LogOptions
from piwo.errors import UsageError
from piwo.logs.batch import Batch
from piwo.logs.columns import ARRAYS, NUMBERS, ROLES, UNLOGGED_ROLES, Columns
from piwo.logs.options import ReadOptions

ROWS = {"action": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 0.5]}


def words(text: str | None) -> str:
    return " ".join((text or "").split())


@pytest.mark.parametrize(
    ("function", "texts"),
    [
        (piwo.read, {name: role.text for name, role in ROLES.items()}),
        (piwo.estimate_propensities, {x: role.text for x, role in UNLOGGED_ROLES.items()}),
        (piwo.Log.from_arrays, ARRAYS),
    ],
)
def test_help_describes_every_role(function, texts) -> None:
    shown = words(function.__doc__)
    for name, text in texts.items():
        assert f"{name}: {text}." in shown


def test_columns_batches_and_options_have_every_role() -> None:
    in_columns = {x.name for x in fields(Columns)} | {"policy_columns"}
    # costs of actions and features of items may also be tables: arguments, and no roles
    assert set(ROLES) == in_columns - {"policies", "action_cost", "item_features"}
    assert {x.name for x in fields(Batch)} >= set(NUMBERS)
    assert {x.name for x in fields(LogOptions)} >= set(ROLES) - {"policy_columns", "segments"}
    others = {"propensities", "eligible", "predictions", "position", "unit", "time"}
    assert {*ARRAYS, "reward"} == {*NUMBERS, *others}


def test_other_constructors_take_what_read_takes() -> None:
    own = {name for name in signature(piwo.read).parameters if name not in {"source", "roles"}}
    assert set(ReadOptions.__annotations__) == {*own, *ROLES}


def test_optional_numbers_reach_batches_under_the_name_of_their_role() -> None:
    for role in NUMBERS:
        if ROLES[role].check is None:
            continue
        log = piwo.read({**ROWS, "x": [1.5, 2.0]}, **{role: "x"})
        (batch,) = log.each_batch()
        assert getattr(batch, role).tolist() == [1.5, 2.0]
        log = piwo.Log.from_arrays(**ROWS, **{role: [1.5, 2.0]})
        (batch,) = log.each_batch()
        assert getattr(batch, role).tolist() == [1.5, 2.0]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: piwo.read(ROWS, contxt="x"), "read has no argument 'contxt'; did you mean 'cont"),
        (lambda: piwo.read(ROWS, missng="x"), "'missng'; did you mean 'missing'"),
        (lambda: piwo.Log.from_frame(ROWS, wieght="x"), "'wieght'; did you mean 'weight'"),
        (lambda: piwo.Log.from_sql("select 1", wieght="x"), "'wieght'; did you mean 'weight'"),
        (lambda: piwo.Log.from_arrays(**ROWS, wieght=[1]), "from_arrays has no argument 'wieght'"),
        (lambda: piwo.Log.from_arrays(**ROWS, key=[1, 2]), "from_arrays has no argument 'key'"),
        (lambda: piwo.estimate_propensities(ROWS, weight="x"), "has no argument 'weight'"),
        (lambda: piwo.estimate_propensities(ROWS, fold=2), "'fold'; did you mean 'folds'"),
    ],
)
def test_a_wrong_name_is_one_line_with_near_names(call, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_columns_by_role_are_what_read_takes() -> None:
    columns = Columns.of_roles({"cost": "c", "context": ["x"], "propensities": "mu"})
    by_role = columns.by_role()
    assert tuple(by_role) == tuple(ROLES)
    named = {role: column for role, column in by_role.items() if column not in (None, ())}
    assert named == {"action": "action", "cost": "c", "context": ("x",), "propensities": "mu"}
    log = piwo.read(pa.table({**ROWS, "x": [0.0, 1.0]}), context="x")
    assert repr(log).splitlines()[1:] == [
        "  columns: action='action', reward='reward', context=('x',), propensity='propensity'",
        "  rewards in [0, 1], logger not declared",
    ]
