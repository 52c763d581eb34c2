"""Open Bandit Pipeline's feedback of slates: its formulas written naively, and what is refused."""

from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError, UsageError
from piwo.slates import FromColumns, evaluate, from_obp

HAND: dict[str, Any] = {
    "slate_id": np.array([7, 7, 9, 9, 9]),
    "position": np.array([1, 0, 0, 1, 2]),
    "action": np.array([0, 2, 1, 2, 0]),
    "reward": np.array([0.5, 1.0, 0.0, 1.0, 0.25]),
    "pscore_cascade": np.array([0.25, 0.5, 0.5, 0.125, 0.125]),
    "pscore": np.array([0.25, 0.25, 0.125, 0.125, 0.125]),
    "pscore_item_position": np.array([0.5, 0.5, 0.5, 0.2, 0.4]),
    "n_unique_action": 3,
    "context": np.array([[1.0, 2.0], [3.0, 4.0]]),
}
NEW = {
    "evaluation_policy_pscore_cascade": np.array([0.25, 0.25, 0.8, 0.4, 0.1]),
    "evaluation_policy_pscore": np.array([0.25, 0.25, 0.1, 0.1, 0.1]),
    "evaluation_policy_pscore_item_position": np.array([0.1, 0.25, 0.8, 0.3, 0.2]),
}
TARGET = FromColumns(above="new_above", marginal="new_marginal")


def value(feedback: Any, policy: Any, estimator: str, target: Any = TARGET) -> float:
    log = from_obp(feedback, policies={"new": policy})
    found = evaluate(log, target, estimator=estimator).value
    assert found is not None
    return found


def test_values_worked_by_hand() -> None:
    # slate 7 is listed from the bottom: rewards 1 and .5 from the top
    standard = (1.0 * 1.5 + 0.1 / 0.125 * 1.25) / 2
    cascade = (0.25 / 0.5 * 1 + 1.0 * 0.5 + 0.4 / 0.125 * 1 + 0.1 / 0.125 * 0.25) / 2
    alone = (0.25 / 0.5 * 1 + 0.1 / 0.5 * 0.5 + 0.3 / 0.2 * 1 + 0.2 / 0.4 * 0.25) / 2
    assert value(HAND, NEW, "standard") == pytest.approx(standard, abs=1e-12)
    assert value(HAND, NEW, "cascade") == pytest.approx(cascade, abs=1e-12)
    assert value(HAND, NEW, "independent") == pytest.approx(alone, abs=1e-12)
    log = from_obp(HAND)
    assert (log.slots, len(log), log.actions.labels) == (3, 2, (0, 1, 2))
    assert log.columns.context == ("x0", "x1")


def naive(feedback: Any, policy: Any, suffix: str) -> float:
    """obp's three estimators: the sum of (pi / pscore) r over all rows, over the slates."""
    total = 0.0
    for row, reward in enumerate(feedback["reward"]):
        pi = policy[f"evaluation_policy_pscore{suffix}"][row]
        total += reward * pi / feedback[f"pscore{suffix}"][row]
    return total / len(set(feedback["slate_id"]))


def synthetic(slates: int, length: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Slates of independent slots, in the layout of obp's dataset, rows shuffled."""
    rng = np.random.default_rng(seed)
    chances = {who: rng.dirichlet(np.ones(5), size=length) for who in ("mu", "pi")}
    action = np.stack([rng.choice(5, size=slates, p=p) for p in chances["mu"]], axis=1)
    columns: dict[str, dict[str, Any]] = {"mu": {}, "pi": {}}
    for who, table in chances.items():
        alone = table[np.arange(length), action]
        joint = alone.cumprod(axis=1)
        columns[who]["pscore_item_position"] = alone.ravel()
        columns[who]["pscore_cascade"] = joint.ravel()
        columns[who]["pscore"] = np.repeat(joint[:, -1], length)
    shuffled = rng.permutation(slates * length)
    feedback: dict[str, Any] = {
        "n_rounds": slates,
        "n_unique_action": 5,
        "slate_id": np.repeat(np.arange(slates), length),
        "position": np.tile(np.arange(length), slates),
        "action": action.ravel(),
        "reward": rng.random(slates * length),
        **columns["mu"],
    }
    policy = {f"evaluation_policy_{name}": x[shuffled] for name, x in columns["pi"].items()}
    for name in set(feedback) - {"n_rounds", "n_unique_action"}:
        feedback[name] = feedback[name][shuffled]
    return feedback, policy


@pytest.mark.parametrize(
    ("estimator", "suffix"),
    [("standard", ""), ("cascade", "_cascade"), ("independent", "_item_position")],
)
def test_values_are_those_of_the_formulas_of_obp(estimator: str, suffix: str) -> None:
    feedback, policy = synthetic(300, 4, seed=5)
    expected = naive(feedback, policy, suffix)
    assert value(feedback, policy, estimator) == pytest.approx(expected, abs=1e-9)
    # with the probabilities of that estimator alone
    kept = [name for name in feedback if not name.startswith("pscore")] + [f"pscore{suffix}"]
    columns = {"": "slate", "_cascade": "above", "_item_position": "marginal"}[suffix]
    target = FromColumns(**{columns: f"new_{columns}"})
    alone = {f"evaluation_policy_pscore{suffix}": policy[f"evaluation_policy_pscore{suffix}"]}
    found = value({name: feedback[name] for name in kept}, alone, estimator, target)
    assert found == pytest.approx(expected, abs=1e-9)


def test_what_is_below_an_action_that_the_target_never_shows_counts_0() -> None:
    joint = np.array([0.0, 0.0, 0.8, 0.4, 0.1])
    new = {"evaluation_policy_pscore_cascade": joint}
    target = FromColumns(above="new_above")
    expected = (0.4 / 0.125 * 1 + 0.1 / 0.125 * 0.25) / 2
    assert value(HAND, new, "cascade", target) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"slate_id": None}, "the slate feedback has no 'slate_id'; it has"),
        (
            {"pscore": None, "pscore_cascade": None, "pscore_item_position": None},
            "has no 'pscore'",
        ),
        (
            {"position": np.array([1, 0, 0, 1, 1])},
            "slate 9 has the position 1 where 2 was expected; each slate needs the positions 0, 1,",
        ),
        ({"position": np.array([2, 0, 0, 1, 2])}, "slate 7 has the position 2 where 1 was"),
        ({"action": np.array([0, 3, 1, 2, 0])}, "'action' is 3 in row 1, expected .* from 0 to 2"),
        ({"action": np.array([0, np.inf, 1, 2, 0])}, "'action' is inf in row 1"),
        ({"reward": np.zeros(4)}, r"'reward' has shape \(4,\), expected \(5,\)"),
        ({"context": np.zeros((5, 2))}, r"'context' has shape \(5, 2\), expected \(2, d\)"),
        ({"pscore": np.full(5, 1.5)}, "pscore gave 1.5, expected a probability in"),
        ({"pscore": np.zeros(2)}, r"pscore gave the shape \(2,\), expected the shape \(5,\)"),
        (
            {"pscore_cascade": np.array([0.5, 0.25, 0.5, 0.125, 0.125])},
            "pscore_cascade rises from 0.25 to 0.5 in slate 7, expected the joint probability",
        ),
        (
            {"pscore": np.array([0.25, 0.25, 0.125, 0.25, 0.125])},
            "pscore is 0.125 and 0.25 in slate 9, expected the probability of the whole slate",
        ),
        (
            {"pscore": np.array([0.25, 0.25, 0.25, 0.25, 0.25])},
            "pscore is 0.25 and pscore_cascade of the last position 0.125 in slate 9",
        ),
    ],
)
def test_what_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        from_obp(HAND | more)


def test_what_is_refused_of_policies() -> None:
    for wrong in (np.zeros(5), {}, {"pscore": np.zeros(5)}):
        with pytest.raises(UsageError, match=r"'new' is .*, expected the probabilities of its"):
            from_obp(HAND, policies={"new": wrong})  # type: ignore[dict-item]
    above = {"evaluation_policy_pscore": np.full(5, 2.0)}
    with pytest.raises(DataError, match="policy 'new': evaluation_policy_pscore gave 2, expected"):
        from_obp(HAND, policies={"new": above})
    whole = NEW | {"evaluation_policy_pscore": np.full(5, 0.75)}
    message = "evaluation_policy_pscore is 0.75 and policy 'new': evaluation_policy_pscore_cascade"
    with pytest.raises(DataError, match=message):
        from_obp(HAND, policies={"new": whole})
    with pytest.raises(UsageError, match="feedback is list, expected the dictionary"):
        from_obp([])  # type: ignore[arg-type]


def test_a_policy_does_not_take_the_columns_of_the_logging_policy() -> None:
    with pytest.raises(UsageError, match=r"policies has the name 'p', whose column 'p_marginal'"):
        from_obp(HAND, policies={"p": NEW})
    # roles that the feedback does not have are free
    alone = {name: x for name, x in HAND.items() if name not in ("pscore", "pscore_cascade")}
    target = {"evaluation_policy_pscore": NEW["evaluation_policy_pscore"]}
    assert "p_slate" in from_obp(alone, policies={"p": target}).source.schema.names


def test_long_ids_of_slates_are_shown_in_full() -> None:
    ids = HAND["slate_id"] + 123456789000
    wrong = {"slate_id": ids, "position": np.array([2, 0, 0, 1, 2])}
    with pytest.raises(DataError, match="slate 123456789007 has the position 2"):
        from_obp(HAND | wrong)


def test_obp_itself_agrees() -> None:
    # it imports PyTorch, which no other test needs
    ope = pytest.importorskip("obp.ope", reason="obp cannot be imported", exc_type=ImportError)
    feedback, policy = synthetic(300, 4, seed=5)
    given = {name: feedback[name] for name in ("slate_id", "reward", "position")}
    for name, estimator, suffix in (
        ("Standard", "standard", ""),
        ("RewardInteraction", "cascade", "_cascade"),
        ("Independent", "independent", "_item_position"),
    ):
        theirs = getattr(ope, f"Slate{name}IPS")(len_list=4)
        more = {f"pscore{suffix}": feedback[f"pscore{suffix}"]}
        more[f"evaluation_policy_pscore{suffix}"] = policy[f"evaluation_policy_pscore{suffix}"]
        expected = theirs.estimate_policy_value(**given, **more)
        assert value(feedback, policy, estimator) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["slate_id", "action", "reward", "position"])
def test_texts_are_no_numbers(name: str) -> None:
    with pytest.raises(DataError, match=f"'{name}' holds what is no number.*return_inverse=True"):
        from_obp({**HAND, name: list("abcde")})
