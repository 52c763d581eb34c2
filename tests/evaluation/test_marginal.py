"""The point estimate by weights of categories, "mips", in evaluate, compare and the command."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.errors import UsageError
from piwo.estimators import mips

CATEGORIES = {"a": "low", "b": "low", "z": "high"}
VECTORS = [[0.2, 0.3, 0.5]] * 3 + [[0.1, 0.1, 0.8]]


def log_of(times: int = 1, **options: object) -> piwo.Log:
    return piwo.Log.from_arrays(
        action=["a", "b", "z", "z"] * times,
        reward=[1.0, 0.5, 1.0, 0.0] * times,
        actions=["a", "b", "z"],
        propensities=VECTORS * times,
        **options,
    )


def test_the_value_by_hand_and_an_interval_that_does_not_rest_on_it() -> None:
    log, policy = log_of(), np.array([[0.6, 0.0, 0.4]] * 4)
    found = piwo.evaluate(log, policy, estimator="mips", categories=CATEGORIES)
    # low: .6/.5 = 1.2 for a and b alike; high: .4/.5 = .8, and .4/.8 = .5 in the last row
    assert found.value == pytest.approx((1.2 * 1.0 + 1.2 * 0.5 + 0.8 * 1.0) / 4)
    assert (found.estimator, found.gamma) == ("mips", None)
    plain = piwo.evaluate(log, policy)
    assert plain.value == pytest.approx((3.0 * 1.0 + 0.0 + 0.8 * 1.0) / 4)
    for name in ("lower", "upper", "interval", "guarantee", "improvement_lower", "mean_weight"):
        assert getattr(found, name) == getattr(plain, name)
    kinds = [note.kind for note in found.notes]
    assert kinds[:3] == ["assumptions", "assumptions", "marginal-interval"]
    assert "acts on the reward through its category alone" in str(found.notes[0])
    assert "assumes none of that" in str(found.notes[2])


def test_each_policy_has_the_value_of_mips() -> None:
    log = log_of(30)
    policies = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    found = piwo.compare(log, policies, estimator="mips", categories=CATEGORIES)
    for name, policy in policies.items():
        alone = mips(log, policy, CATEGORIES)
        assert (found[name].value, found[name].standard_error) == (
            alone.value,
            alone.standard_error,
        )
    # Never better than what the actions themselves show: "b" earns .5, its category more.
    assert found["b"].value > 0.5


def test_a_value_outside_of_the_interval_is_noted() -> None:
    log = log_of(400)
    wrong = piwo.policies.Constant("b", log.actions)
    found = piwo.evaluate(log, wrong, estimator="mips", categories=CATEGORIES)
    assert found.value is not None
    assert found.upper is not None
    assert found.value > found.upper
    assert "the value is outside" in " ".join(map(str, found.notes))


def test_categories_are_a_column_of_items() -> None:
    items = {"action": ["z", "a", "b"], "height": ["high", "low", "low"]}
    log = log_of(5, items=items)
    policy = piwo.policies.Uniform(log.actions)
    by_column = piwo.evaluate(log, policy, estimator="mips", categories="height")
    assert by_column == piwo.evaluate(log, policy, estimator="mips", categories=CATEGORIES)
    with pytest.raises(UsageError, match=r"expected a column of items \(height\)"):
        piwo.evaluate(log, policy, estimator="mips", categories="hight")
    with pytest.raises(UsageError, match="the log was read without"):
        piwo.evaluate(log_of(), policy, estimator="mips", categories="height")


def test_what_does_not_go_together_is_refused() -> None:
    log = log_of(5, segments={"day": ["x", "y"] * 10})
    even = piwo.policies.Uniform(log.actions)
    with pytest.raises(UsageError, match="give categories: label -> category"):
        piwo.evaluate(log, even, estimator="mips")
    with pytest.raises(UsageError, match="got categories without estimator='mips'"):
        piwo.evaluate(log, even, categories=CATEGORIES)
    with pytest.raises(UsageError, match="value of all rows together, got by='day'"):
        piwo.evaluate(log, even, estimator="mips", categories=CATEGORIES, by="day")
    with pytest.raises(UsageError, match="list of gamma with estimator='mips'"):
        piwo.evaluate(log, even, estimator="mips", categories=CATEGORIES, gamma=[0.1, 0.2])
    with pytest.raises(UsageError, match="shrinkage, switch, mips"):
        piwo.evaluate(log, even, estimator="mipps")


def test_the_command(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    table = {"action": ["a", "b", "z", "z"] * 10, "reward": [1.0, 0.5, 1.0, 0.0] * 10}
    pq.write_table(pa.table({**table, "p": VECTORS * 10}), tmp_path / "log.parquet")
    (tmp_path / "items.csv").write_text("action,height,size\na,low,1\nb,low,1\nz,high,1\n")
    (tmp_path / "categories.txt").write_text("a=low\nb=low\nz=high\n")
    words = ["evaluate", str(tmp_path / "log.parquet"), "--propensities", "p"]
    words += ["--actions", "a,b,z", "--policy", "uniform", "--estimator", "mips"]
    items = ["--items", str(tmp_path / "items.csv")]
    printed = []
    for options in (
        ["--categories", "a=low,b=low,z=high"],
        ["--categories", f"@{tmp_path / 'categories.txt'}"],
        ["--categories", "height", *items],
        ["--categories", "height,size", *items],
    ):
        assert main([*words, *options]) == 0
        printed.append(capsys.readouterr().out.partition("\nnext:")[0])
    assert len(set(printed)) == 1
    assert "value (mips)" in printed[0]
    assert "acts on the reward through its category alone" in printed[0]
    assert main(words) == 2
    assert "give --categories" in capsys.readouterr().err
    assert main([*words, "--categories", "a=low,a=high"]) == 2
    assert "--categories names 'a' twice" in capsys.readouterr().err
