"""What no row of a log with eligible actions can show: exact, proved, or at most what is left."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.policies import Uniform
from piwo.reductions.listed_mass import CertainRows, ListedMass
from piwo.reductions.reduce import reduce
from piwo.reductions.unsupported import UnsupportedMass

# By hand: the uniform policy plays a and c of the second row with 2/3, where b was certain; c was
# never taken. In the other rows the logger could take all. So 2/3 of one row of three, 2/9.
HAND = {
    "action": ["a", "b", "b"],
    "reward": [1, 0, 1],
    "could": [["a", "b"], ["a", "b", "c"], ["b"]],
}
ALONE = {**HAND, "propensity": [0.5, 1.0, 1.0]}
LISTS = {**HAND, "mu": [[0.5, 0.5], [0.0, 1.0, 0.0], [1.0]]}


def read(columns: dict | pa.Table, **options: object) -> piwo.Log:
    names = columns.column_names if isinstance(columns, pa.Table) else columns
    if "mu" in names:
        options["propensities"] = "mu"
    return piwo.read(columns, eligible="could", **options)


def simulated(n: int = 3000, seed: int = 0) -> dict[str, list]:
    """Six items, four a row; the logger never takes some of them, or takes one for sure."""
    random = np.random.default_rng(seed)
    rows: dict[str, list] = {"action": [], "reward": [], "could": [], "mu": []}
    for _ in range(n):
        could = random.permutation(6)[:4]
        p = random.dirichlet(np.ones(4))
        p[random.random(4) < 0.3] = 0.0
        # item 5 cannot be taken, wherever it is listed
        p[could == 5] = 0.0
        if random.random() < 0.2 or not p.any():
            p = np.where(np.arange(4) == np.argmax(could != 5), 1.0, 0.0)
        p /= p.sum()
        rows["action"].append(int(random.choice(could, p=p)))
        rows["reward"].append(int(random.integers(2)))
        rows["could"].append(could.tolist())
        rows["mu"].append(p.tolist())
    return rows


def alone(rows: dict[str, list]) -> dict[str, list]:
    """Return the log with the propensity of the logged action alone."""
    kept = {name: rows[name] for name in ("action", "reward", "could")}
    each = zip(rows["action"], rows["could"], rows["mu"], strict=True)
    return {**kept, "propensity": [p[could.index(a)] for a, could, p in each]}


class Weighted(piwo.policies.Policy):
    """A policy that plays item i in proportion to i + 1."""

    def __init__(self, labels: piwo.logs.Actions) -> None:
        self.listed = labels

    def distribution(self, context: np.ndarray | None, n: int) -> np.ndarray:
        p = np.array([float(label) + 1.0 for label in self.actions])
        return np.tile(p / p.sum(), (n, 1))


@pytest.mark.parametrize("columns", [ALONE, LISTS])
def test_the_mass_by_hand(columns: dict) -> None:
    log = read(columns)
    even = Uniform(log.actions)
    found = piwo.evaluate(log, even)
    assert found.unsupported_mass == pytest.approx(2 / 9)
    exact = "mu" in columns
    kind = "never-logged" if exact else "out-of-reach"
    (text,) = [str(note) for note in found.notes if note.kind == kind]
    assert ("the logger could not take there (propensity 0)" in text) == exact
    assert text.startswith("at most 0.2222 of what the policy plays, in actions that") != exact
    health = piwo.check(log)
    assert health.unsupported_mass == pytest.approx(2 / 9)
    assert (health.never_logged, health.never_logged_eligible) == (("c",), (1,))
    (finding,) = [one for one in health.findings if one.kind == "never-logged"]
    assert "1 of 3 actions were eligible and never taken (eligible in rows: 'c': 1)" in finding.text
    assert finding.severity == "care"
    assert piwo.certify(log, {"even": even})["even"].unsupported_mass == pytest.approx(2 / 9)
    assert piwo.evaluate(log, piwo.policies.Logging()).unsupported_mass == 0.0


def test_lists_of_propensities_give_the_mass_of_a_loop() -> None:
    rows = simulated()
    log = read(rows)
    policy = Weighted(log.actions)
    twin = []
    for could, p in zip(rows["could"], rows["mu"], strict=True):
        pi = np.array(could) + 1.0
        twin.append(float((pi / pi.sum())[np.array(p) == 0.0].sum()))
    assert 0.2 < np.mean(twin) < 0.8
    assert piwo.evaluate(log, policy).unsupported_mass == pytest.approx(np.mean(twin), rel=1e-12)
    assert piwo.check(log, policy).unsupported_mass == pytest.approx(np.mean(twin), rel=1e-12)


def test_logged_propensities_alone_show_what_a_loop_shows() -> None:
    rows = alone(simulated())
    log = read(rows)
    policy = Weighted(log.actions)
    twin = []
    for action, could, p in zip(rows["action"], rows["could"], rows["propensity"], strict=True):
        pi = np.array(could) + 1.0
        pi /= pi.sum()
        if p == 1.0:
            twin.append(1.0 - pi[could.index(action)])
        else:
            twin.append(float(pi[np.array(could) == 5].sum()))
    found = piwo.evaluate(log, policy)
    assert found.unsupported_mass == pytest.approx(np.mean(twin), rel=1e-12)
    assert found.unsupported_mass < found.missing_mass_upper
    # The truth is the mass of propensity 0, some of which these columns do not show.
    truth = piwo.evaluate(read(simulated()), policy).unsupported_mass
    assert found.unsupported_mass < truth < found.missing_mass_upper
    # Propensities that may be too small prove nothing by being 1.
    doubted = log.with_propensity_error(1.5)
    never = np.mean([sum(x + 1 for x in c if x == 5) / (sum(c) + 4) for c in rows["could"]])
    assert piwo.evaluate(doubted, policy).unsupported_mass == pytest.approx(never, rel=1e-12)


def test_a_policy_known_on_logged_actions_has_what_certain_rows_show() -> None:
    columns = {**ALONE, "pi": [0.5, 0.25, 1.0]}
    columns["could"] = [["a", "b"], ["a", "b"], ["b"]]
    log = read(columns, policy_columns="pi")
    assert piwo.evaluate(log, piwo.policies.Column("pi")).unsupported_mass == pytest.approx(0.25)
    # It may play c, which was never taken.
    log = read({**columns, "could": HAND["could"]}, policy_columns="pi")
    assert piwo.evaluate(log, piwo.policies.Column("pi")).unsupported_mass is None


@pytest.mark.parametrize("lists", [False, True])
def test_items_that_chance_left_out_are_not_unsupported(lists: bool) -> None:
    random = np.random.default_rng(1)
    n, items = 4000, 6000
    could = (random.integers(items, size=n)[:, None] + np.arange(5) * (items // 5)) % items
    columns = {"action": could[:, 0], "reward": random.integers(0, 2, n), "could": list(could)}
    if lists:
        columns["mu"] = [[0.2] * 5] * n
    else:
        columns["propensity"] = np.full(n, 0.2)
    log = read(columns)
    found = piwo.evaluate(log, Uniform(log.actions))
    # About half of what the policy plays are items that no row took, and nothing is missing.
    never = set(could.ravel().tolist()) - set(could[:, 0].tolist())
    assert np.isin(could, list(never)).mean() > 0.4
    assert found.unsupported_mass <= found.missing_mass_upper < 0.01
    assert found.value == pytest.approx(np.mean(columns["reward"]))
    health = piwo.check(log)
    (finding,) = [one for one in health.findings if one.kind == "never-logged"]
    assert health.verdict == "fit"
    assert finding.severity == "note"
    texts = [str(note) for note in found.notes if note.kind in {"never-logged", "out-of-reach"}]
    assert health.unsupported_mass == found.unsupported_mass
    if lists:
        assert found.unsupported_mass == 0.0
        assert not texts
        assert "could take all that the uniform policy plays" in finding.text
    else:
        # Their mean weight is 1, so the value lacks nothing.
        assert texts[0].startswith(f"at most {found.unsupported_mass:.4g} of what the policy plays")
        assert "lowest" not in texts[0]
        assert f"at most {found.unsupported_mass:.4g} of what the uniform policy" in finding.text
        assert "unknown" not in finding.text


def test_lists_of_eligible_actions_are_complete() -> None:
    columns = {
        "action": ["a", "b"] * 100 + ["c"],
        "reward": [1, 0] * 100 + [1],
        "propensity": [0.5] * 201,
        "could": [["a", "b"]] * 200 + [["a", "c"]],
    }
    log = read(columns)
    found = piwo.evaluate(log, Uniform(log.actions))
    # c was taken once; the uniform policy plays no action that is not listed.
    assert found.no_interval is None
    assert found.lower is not None
    assert piwo.check(log).logged_once == 0
    plain = piwo.read({name: columns[name] for name in ("action", "reward", "propensity")})
    assert piwo.evaluate(plain, Uniform(plain.actions)).no_interval.kind == "inferred-actions"


def test_an_action_that_no_row_lists_is_not_missing() -> None:
    log = read(ALONE, actions=["a", "b", "c", "d", "e"])
    assert piwo.evaluate(log, Uniform(log.actions)).unsupported_mass == pytest.approx(2 / 9)
    health = piwo.check(log)
    assert health.never_eligible == 2
    (finding,) = [one for one in health.findings if one.kind == "never-logged"]
    assert "1 of 5 actions were eligible and never taken (eligible in rows: 'c': 1)" in finding.text


@pytest.mark.parametrize("propensity", [0.5, 0.3, 0.2])
def test_check_and_evaluate_bound_the_mass_alike(propensity: float) -> None:
    """The logger takes a and b with 1/2 each, and never z, whatever is logged."""
    random = np.random.default_rng(0)
    columns = {
        "action": random.choice(["a", "b"], 2000).tolist(),
        "reward": random.integers(0, 2, 2000).tolist(),
        "propensity": [propensity] * 2000,
        "could": [["a", "b", "z"]] * 2000,
    }
    log = read(columns)
    even = Uniform(log.actions)
    found, health = piwo.evaluate(log, even), piwo.check(log)
    # Where propensities are contradicted there is no bound.
    assert (found.missing_mass_upper is None) == (propensity < 0.5)
    assert found.unsupported_mass == health.unsupported_mass == pytest.approx(1 / 3)
    (finding,) = [one for one in health.findings if one.kind == "never-logged"]
    assert "at most 0.3333 of what the uniform policy plays" in finding.text


def test_check_takes_the_bound_of_the_interval() -> None:
    """Half of what the policy plays was never taken, and bets on blocks show most by chance."""
    random = np.random.default_rng(3)
    n, items = 1500, 3000
    could = (random.integers(items, size=n)[:, None] + np.arange(3) * (items // 3)) % items
    # skewed: item weights differ, so that the bound is far from 0
    p = random.dirichlet(np.ones(3), n)
    place = (random.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=2)
    rows = np.arange(n)
    columns = {
        "action": could[rows, place],
        "reward": random.integers(0, 2, n),
        "propensity": p[rows, place],
        "could": list(could),
    }
    log = read(columns)
    even = Uniform(log.actions)
    found, health = piwo.evaluate(log, even), piwo.check(log)
    assert 0.01 < found.missing_mass_upper < 0.4
    assert found.unsupported_mass == found.missing_mass_upper == health.unsupported_mass


def test_what_only_certain_rows_show_is_proved() -> None:
    columns = {
        "action": ["a"] * 3 + ["b"],
        "reward": [1.0, 1, 1, 1],
        "propensity": [1.0, 0.25, 0.25, 0.5],
        "could": [["a", "b"]] * 4,
    }
    log = read(columns, reward_range=(0, 1))
    found = piwo.evaluate(log, Uniform(log.actions))
    # By hand: 1/2 of one row of four; weights 1/2, 2, 2, 1 give 5.5/4, and no reward is above 1.
    assert (found.unsupported_mass, found.value) == (0.125, 1.375)
    (text,) = [str(note) for note in found.notes if note.kind == "never-logged"]
    assert "probability 0.125 to actions that the logger could not take there (another had" in text
    assert text.endswith("with the highest it would be 1")


def test_never_logged_actions_of_a_fixed_list_may_be_left_out_by_chance() -> None:
    random = np.random.default_rng(1)
    n, items = 1500, 3000
    columns = {
        "action": random.integers(items, size=n),
        "reward": (random.random(n) < 0.9).astype(int),
        "propensity": np.full(n, 1 / items),
    }
    log = piwo.read(columns, actions=list(range(items)))
    found = piwo.evaluate(log, Uniform(log.actions))
    assert found.unsupported_mass > 0.5 > found.missing_mass_upper
    (text,) = [str(note) for note in found.notes if note.kind in {"never-logged", "out-of-reach"}]
    assert "some of them by chance" in text
    assert "lowest" not in text


@pytest.mark.parametrize("actions", [["a", "b"], ["a", "b", "z"]])
def test_a_declared_action_that_no_row_lists_changes_no_mass(actions: list[str]) -> None:
    columns = {**ALONE, "pi": [0.5, 0.25, 1.0], "could": [["a", "b"], ["a", "b"], ["b"]]}
    log = read(columns, policy_columns="pi", actions=actions)
    column = piwo.policies.Column("pi")
    assert piwo.evaluate(log, column).unsupported_mass == pytest.approx(0.25)
    assert piwo.check(log, column).unsupported_mass == pytest.approx(0.25)
    certificate = piwo.certify(log, {"pi": column})["pi"]
    assert certificate.unsupported_mass == pytest.approx(0.25)


@pytest.mark.parametrize("make", ["listed", "certain", "exact"])
def test_parts_add_up(make: str) -> None:
    rows = simulated(500)
    log = read(rows) if make == "exact" else read(alone(rows))
    policy = Weighted(log.actions)
    reduction = {
        "listed": ListedMass(policy, (log.actions.index(5),), certain=True),
        "certain": CertainRows(),
        "exact": UnsupportedMass(policy),
    }[make]
    whole = reduce(log, reduction)
    split = log.split(0.4)
    one, other = reduce(split.train, reduction), reduce(split.test, reduction)
    merged = reduction.merge(other, reduction.merge(reduction.empty(), one))
    assert vars(merged) == pytest.approx(vars(whole), rel=1e-12)


def test_the_command_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table(LISTS), tmp_path / "log.parquet")
    words = ["--eligible", "could", "--propensities", "mu", "--json"]
    assert main(["evaluate", str(tmp_path / "log.parquet"), "--policy", "uniform", *words]) == 0
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    assert found["unsupported_mass"] == pytest.approx(2 / 9)
    main(["check", str(tmp_path / "log.parquet"), *words])
    health = json.loads(capsys.readouterr().out)
    assert health["never_logged_eligible"] == [1]
    assert health["unsupported_mass"] == pytest.approx(2 / 9)
