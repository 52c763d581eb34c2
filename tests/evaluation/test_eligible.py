"""Logs whose actions change from row to row: values by hand, in every form, and what is refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.errors import DataError, UsageError
from piwo.policies import Constant, LinearGreedy, Uniform

# Three rows by hand: the weights of the uniform policy are 1/2 / .5, 1/3 / .25 and 1 / 1.
HAND = {
    "action": ["a", "c", "b"],
    "reward": [1.0, 1.0, 0.0],
    "propensity": [0.5, 0.25, 1.0],
    "could": [["b", "a"], ["a", "b", "c"], ["b"]],
}


def simulated(n: int = 4000, seed: int = 0) -> tuple[pa.Table, np.ndarray]:
    """Items that are there for a while; a logger that draws among those that are."""
    random = np.random.default_rng(seed)
    items, width = 12, 2
    weights = random.normal(size=(items, width))
    rows: dict[str, list] = {x: [] for x in ("action", "reward", "propensity", "could", "all_p")}
    context = random.normal(size=(n, width))
    for x in context:
        could = random.permutation(items)[: random.integers(2, 6)]
        z = np.exp(0.5 * weights[could] @ x)
        p = z / z.sum()
        i = random.choice(len(could), p=p)
        rows["action"].append(f"i{could[i]}")
        rows["reward"].append(float(random.random() < 1 / (1 + np.exp(-weights[could[i]] @ x))))
        rows["propensity"].append(p[i])
        rows["could"].append([f"i{a}" for a in could])
        rows["all_p"].append(p)
    columns = {f"x{j}": context[:, j] for j in range(width)}
    return pa.table({**rows, **columns}), weights


def by_item(weights: np.ndarray, log: piwo.Log) -> LinearGreedy:
    """Return the policy that takes the best eligible item."""
    order = [int(str(label)[1:]) for label in log.actions]
    return LinearGreedy(weights[order], np.zeros(len(order)), log.actions)


def test_the_value_by_hand() -> None:
    log = piwo.read(HAND, eligible="could")
    result = piwo.evaluate(log, Uniform(log.actions))
    assert result.value == pytest.approx((1.0 + 4 / 3) / 3)
    assert result.mean_weight == pytest.approx((1.0 + 4 / 3 + 1.0) / 3)
    arrays = piwo.Log.from_arrays(
        action=HAND["action"],
        reward=HAND["reward"],
        propensity=HAND["propensity"],
        eligible=HAND["could"],
    )
    assert piwo.evaluate(arrays, Uniform(arrays.actions)).value == pytest.approx(result.value)
    # Items that were never shown are actions, too.
    more = {**HAND, "could": [["b", "a", "z"], ["a", "b", "c"], ["b"]]}
    assert "z" in piwo.read(more, eligible="could").actions


def test_every_action_eligible_changes_no_number() -> None:
    table, _ = simulated()
    labels = [f"i{a}" for a in range(12)]
    plain = table.drop(["could", "all_p"])
    listed = plain.append_column("could", pa.array([labels] * len(table)))
    one = piwo.read(plain, context="x*", actions=labels)
    two = piwo.read(listed, context="x*", actions=labels, eligible="could")
    policies = {
        "uniform": Uniform(labels),
        "greedy": LinearGreedy(np.eye(12, 2), np.zeros(12), labels),
    }
    plain_found, listed_found = piwo.compare(one, policies), piwo.compare(two, policies)
    for name, found in plain_found.items():
        other = listed_found[name]
        for field in ("value", "lower", "upper", "ess", "mean_weight", "improvement_lower"):
            assert getattr(other, field) == pytest.approx(getattr(found, field), rel=1e-12)


def test_every_source_gives_the_same_numbers(tmp_path: Path) -> None:
    table, weights = simulated()
    log = piwo.read(table, context="x*", eligible="could")
    policy = by_item(weights, log)
    expected = piwo.evaluate(log, policy)
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=500)
    (tmp_path / "log.jsonl").write_text(table.to_pandas().to_json(orient="records", lines=True))
    sources = [
        tmp_path / "log.parquet",
        tmp_path / "log.jsonl",
        f"select * from '{tmp_path / 'log.parquet'}'",
        table.to_pandas(),
        table.set_column(3, "could", table["could"].cast(pa.large_list(pa.large_string()))),
    ]
    for source in sources:
        found = piwo.evaluate(piwo.read(source, context="x*", eligible="could"), policy)
        assert found.value == pytest.approx(expected.value, rel=1e-9)
        assert found.lower == pytest.approx(expected.lower, rel=1e-9)
    vectors = piwo.read(
        table, context="x*", eligible="could", propensities="all_p", propensity=None
    )
    assert piwo.evaluate(vectors, policy).value == pytest.approx(expected.value, rel=1e-9)
    half = log.split(0.5).test
    assert piwo.evaluate(half, policy).rows == len(half)


def test_certificates_and_check_of_such_a_log() -> None:
    table, weights = simulated(seed=3)
    log = piwo.read(table, context="x*", eligible="could", logger="fixed")
    policy = by_item(weights, log)
    made = piwo.certify(log, {"best": policy})["best"]
    truth = []
    for x, could in zip(
        np.column_stack([table["x0"], table["x1"]]), table["could"].to_pylist(), strict=True
    ):
        best = max(float(weights[int(a[1:])] @ x) for a in could)
        truth.append(1 / (1 + np.exp(-best)))
    assert made.improves
    assert made.value_lower < np.mean(truth)
    health = piwo.check(log)
    assert health.verdict == "fit"
    # The mean of 1/mu of an action is over the rows in which it could be taken.
    assert all(abs(row.z) < 4.5 for row in health.by_action)
    assert all(0.7 < row.mean_inverse < 1.4 for row in health.by_action)
    assert health.logger_changed is None


@pytest.mark.parametrize(
    ("could", "says"),
    [
        (
            ["a", "b"],
            r"column 'could' does not list the action that was taken in 1 row \(.*\); such as 'c'",
        ),
        (["c", "c"], "column 'could' lists an action twice in 1 row"),
        ([], "column 'could' has no eligible action in 1 row"),
        (None, "column 'could' has no eligible action in 1 row"),
        (["c", None], "column 'could' has labels that are missing or not in the action list"),
    ],
)
def test_a_row_that_breaks_a_rule_is_named(could: list | None, says: str) -> None:
    rows = {**HAND, "could": [HAND["could"][0], could, HAND["could"][2]]}
    log = piwo.read(rows, eligible="could", actions=["a", "b", "c"])
    with pytest.raises(piwo.DataError, match=says) as refused:
        piwo.evaluate(log, Uniform(log.actions))
    assert "row numbers from 0: 1" in str(refused.value)


def test_a_label_in_an_error_is_harmless_text() -> None:
    rows = {**HAND, "action": ["a\n\x1b[31m", *HAND["action"][1:]]}
    with pytest.raises(piwo.DataError) as refused:
        piwo.check(piwo.read(rows, eligible="could"))
    assert r"such as 'a\n\x1b[31m'; only" in str(refused.value)


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        ([0.5, 0.5], "has not as many probabilities as there are eligible actions"),
        ([0.5, 0.25, 0.5], "does not sum to 1 within 0.0001"),
        ([1.25, -0.5, 0.25], "has negative probabilities"),
        ([0.5, None, 0.25], "has missing or infinite probabilities"),
        ([0.5, 0.3, 0.2], "disagrees with the propensity of the logged action"),
    ],
)
def test_lists_of_propensities_are_checked(vector: list, says: str) -> None:
    rows = {**HAND, "p": [[0.5, 0.5], vector, [1.0]]}
    log = piwo.read(rows, eligible="could", propensities="p", propensity="propensity")
    with pytest.raises(piwo.DataError, match=f"column 'p' {says}"):
        next(log.each_batch(propensities=True))


def test_what_is_refused_is_one_line() -> None:
    with pytest.raises(piwo.DataError, match="column 'x' has type int64, expected lists of the"):
        piwo.read({**HAND, "x": [1, 2, 3]}, eligible="x").actions  # noqa: B018
    log = piwo.read({**HAND, "x": [1.0, 2.0, 3.0]}, eligible="could", context="x")
    with pytest.raises(piwo.UsageError, match="learns as if every action could be taken in every"):
        piwo.PIWO().fit(log)
    with pytest.raises(piwo.DataError, match="takes an action that is not eligible"):
        piwo.evaluate(log, Constant("a", log.actions))


def test_the_command_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, _ = simulated()
    pq.write_table(table, tmp_path / "log.parquet")
    expected = piwo.evaluate(
        piwo.read(table, eligible="could"), Uniform([f"i{a}" for a in range(12)])
    )
    words = ["evaluate", str(tmp_path / "log.parquet"), "--eligible", "could"]
    assert main([*words, "--policy", "uniform"]) == 0
    assert f"{expected.value:.4g}" in capsys.readouterr().out


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_acting_on_a_file_keeps_ids_and_takes_only_what_is_eligible(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, weights = simulated(200)
    features = piwo.read(table, context="x*", eligible="could").features
    labels = [f"i{a}" for a in range(12)]
    policy = LinearGreedy(weights, np.zeros(12), labels, features=features)
    policy.save(tmp_path / "p.piwo")
    asked = table.append_column("id", pa.array([f"v{i}" for i in range(200)]))
    path = tmp_path / f"contexts.{ending}"
    if ending == "parquet":
        pq.write_table(asked, path)
    else:
        path.write_text(asked.to_pandas().to_json(orient="records", lines=True))
    words = ["policy", "act", str(tmp_path / "p.piwo"), str(path), "--eligible", "could"]
    words += ["--keep", "id", "--epsilon", ".3", "--seed", "0", "--out", str(tmp_path / "d.csv")]
    assert main(words) == 0
    done = [x.split(",") for x in (tmp_path / "d.csv").read_text().splitlines()]
    assert done[0] == ["id", "action", "propensity"]
    assert [x[0] for x in done[1:]] == asked["id"].to_pylist()
    for (_, action, p), could in zip(done[1:], asked["could"].to_pylist(), strict=True):
        assert action in could
        assert float(p) >= 0.3 / len(could) - 1e-12
    capsys.readouterr()
    assert main([*words[:4], "--keep", "action"]) == 2
    assert "--keep got 'action'" in capsys.readouterr().err


def test_check_by_number_of_eligible_actions() -> None:
    table, _ = simulated()
    log = piwo.read(table, eligible="could")
    health = piwo.check(log)
    sizes = np.array([len(x) for x in table["could"].to_pylist()])
    weight = 1.0 / (sizes * table["propensity"].to_numpy())
    assert [row.least for row in health.by_size] == [2, 4]
    for row, mine in zip(health.by_size, (sizes < 4, sizes >= 4), strict=True):
        assert row.rows == mine.sum()
        assert row.mean_weight == pytest.approx(weight[mine].mean())
        error = weight[mine].std() / np.sqrt(mine.sum() - 1)
        assert row.z == pytest.approx((weight[mine].mean() - 1.0) / error)
        assert abs(row.z) < 4
    assert "by number of eligible actions" in str(health)
    # Propensities over all twelve items, where at most five could be taken.
    logged = table["propensity"].to_numpy()
    lower = pa.array(np.where(sizes >= 4, logged * sizes / 12, logged))
    wrong = table.set_column(table.column_names.index("propensity"), "propensity", lower)
    found = piwo.check(piwo.read(wrong, eligible="could"))
    (text,) = [x.text for x in found.findings if x.kind == "eligible"]
    # 12 / 4 and 12 / 5, about equally often
    assert "4 to 7 eligible actions the mean weight of the uniform policy is 2.75, exp" in text
    assert piwo.check(piwo.read(table.drop(["could"]))).by_size == ()


@pytest.mark.parametrize("kind", ["constant", "epsilon", "mixture", "aligned"])
def test_errors_of_eligible_actions_name_the_policy(kind: str) -> None:
    log = piwo.read(
        {
            "action": ["a", "b"] * 4,
            "reward": [1, 0] * 4,
            "propensity": [0.5] * 8,
            "could": [["a", "b"], ["b", "c"]] * 4,
        },
        eligible="could",
    )
    even, fixed = piwo.policies.Uniform(log.actions), piwo.policies.Constant("a", log.actions)
    wrong = {
        "constant": fixed,
        "epsilon": piwo.policies.EpsilonGreedy(fixed, 0.1),
        "mixture": piwo.policies.Mixture([fixed, even], [0.5, 0.5]),
        "aligned": piwo.policies.Constant("a", ["a"]),
    }[kind]
    with pytest.raises(DataError, match=r"^policy 'new': row numbers from 0: 1, 3, .*eligible"):
        piwo.compare(log, {"fine": even, "new": wrong})
    with pytest.raises(DataError, match=r"^the baseline .*: row numbers from 0: 1, 3, .*eligible"):
        piwo.evaluate(log, even, baseline=wrong)


def test_lists_of_propensities_make_control_variates() -> None:
    columns = {
        "action": ["a", "b"] * 20,
        "reward": [1, 0] * 20,
        "could": [["a", "b"], ["b", "c"]] * 20,
    }
    log = piwo.read({**columns, "p": [[0.5, 0.5]] * 40}, eligible="could", propensities="p")
    even = piwo.policies.Uniform(log.actions)
    found = piwo.evaluate(log, even)
    alone = piwo.read({**columns, "propensity": [0.5] * 40}, eligible="could")
    # Control variates take the lists; without them no advice is given, as loggers seldom have them.
    other = piwo.evaluate(alone, even)
    assert (found.interval, other.interval) == ("deadline-cv", "deadline")
    assert found.value == other.value
    for one in (log, alone):
        assert not any(note.kind == "control-variate" for note in piwo.evaluate(one, even).notes)
    with pytest.raises(UsageError, match="the log has the propensity of the logged action only"):
        piwo.evaluate(alone, even, interval="mixture-cv")


def undeclared() -> dict[str, list]:
    return {name: values for name, values in HAND.items() if name != "propensity"}


class Fixed:
    """A logger of one's own, which knows nothing of lists."""

    def probabilities(self, X: np.ndarray) -> np.ndarray:
        return np.tile([0.5, 0.25, 0.25], (len(X), 1))


def test_a_declared_logger_is_restricted_to_the_list() -> None:
    # uniform: one over the length of the list
    log = piwo.read(undeclared(), eligible="could", behavior=Uniform(["a", "b", "c"]))
    batch = next(log.each_batch())
    assert batch.propensity.tolist() == [1 / 2, 1 / 3, 1.0]
    assert batch.eligible.propensities.tolist() == [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1.0]
    same = piwo.evaluate(log, Uniform(log.actions))
    assert same.value == pytest.approx(2 / 3)
    assert same.interval == "deadline-cv"
    # another one, by its own: .5/(.25 + .5), .25/1 and .25/.25
    log = piwo.read(undeclared(), eligible="could", behavior=Fixed(), actions=["a", "b", "c"])
    assert next(log.each_batch()).propensity == pytest.approx([2 / 3, 1 / 4, 1.0])
    # as that of a target policy with the same probabilities
    policy = piwo.policies.Tabular([0.5, 0.25, 0.25], log.actions)
    weights = piwo.weights(log, policy)
    assert weights == pytest.approx(np.ones(3))


def test_a_declared_logger_is_as_good_as_logged_lists() -> None:
    table, weights = simulated()
    # the lists are in random order
    first = [could[0] for could in table["could"].to_pylist()]
    table = table.drop_columns(["action", "propensity"]).append_column("action", pa.array(first))
    lists = [[1 / len(could)] * len(could) for could in table["could"].to_pylist()]
    logged = piwo.read(
        table.append_column("lists", pa.array(lists)),
        eligible="could",
        propensities="lists",
        propensity=None,
        context="x*",
    )
    labels = logged.actions.labels
    declared = piwo.read(
        table, eligible="could", behavior=Uniform(labels), propensity=None, context="x*"
    )
    policy = by_item(weights, logged)
    one, other = piwo.evaluate(logged, policy), piwo.evaluate(declared, policy)
    assert (other.value, other.lower, other.upper) == pytest.approx(
        (one.value, one.lower, one.upper), rel=1e-12
    )


def test_a_declared_logger_that_cannot_be() -> None:
    # the logged propensities are compared with it
    log = piwo.read(
        HAND, eligible="could", behavior=Uniform(["a", "b", "c"]), propensity="propensity"
    )
    with pytest.raises(piwo.DataError, match=r"'behavior' disagrees .* in 1 row .*: 1\)"):
        next(log.each_batch())
    never = Constant("b", ["a", "b", "c"])
    log = piwo.read(undeclared(), eligible="could", behavior=never)
    with pytest.raises(piwo.DataError, match="probability 0 to an action that was taken"):
        next(log.each_batch())
    scores = piwo.policies.LinearGreedy([[1.0], [0.0]], [0.0, 0.0], ["a", "b"])
    log = piwo.read(undeclared(), eligible="could", behavior=scores, actions=["a", "b", "c"])
    with pytest.raises(piwo.DataError, match="behavior policy needs the context"):
        next(log.each_batch())


@pytest.mark.parametrize(
    ("row", "message"),
    [
        # the list alone divides by its own sum, and would hide each of these
        ([2.0, 1.0, 1.0], r"gave \[2, 1, 1\] with the sum 4, expected"),
        ([0.3, 0.3, 0.3], r"gave \[0.3, 0.3, 0.3\] with the sum 0.9, expected"),
        ([0.5, 1.5, -1.0], r"gave \[0.5, 1.5, -1\], expected"),
        ([0.5, np.nan, 0.5], r"gave \[0.5, nan, 0.5\], expected"),
    ],
)
def test_a_declared_logger_gives_distributions(row: list[float], message: str) -> None:
    class Wrong:
        def probabilities(self, X: np.ndarray) -> np.ndarray:
            return np.tile(row, (len(X), 1))

    log = piwo.read(undeclared(), eligible="could", behavior=Wrong(), actions=["a", "b", "c"])
    with pytest.raises(piwo.DataError, match=f"0, 1, 2: behavior: Wrong {message} probabilities"):
        next(log.each_batch())


def test_propensities_of_eligible_actions_are_not_estimated() -> None:
    with pytest.raises(piwo.UsageError, match=r"declare what wrote the log \(behavior\)"):
        piwo.estimate_propensities(undeclared(), eligible="could")
