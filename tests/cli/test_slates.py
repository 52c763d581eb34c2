"""`piwo slates`: the numbers, notes and refusals of `piwo.slates.compare`."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo as library
from tests.slates.simulator import ITEMS, TARGET_COLUMNS, SlateBandit
from tests.slates.test_vowpal_wabbit import lines
from tests.slates.test_vowpal_wabbit_names import OFFERS, events

COLUMNS = ("--slate", "shown", "--rewards", "rs", "--propensities", "mu_above")
TARGETS = ("--target-propensities", "pi_above", "--target-marginals", "pi_alone")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    table = SlateBandit("cascade").table(200, 0)
    table["visitor"] = [i // 2 for i in range(200)]
    table["best"] = [["c", "b"]] * 200
    table["s"] = [1.0, 2.0] * 100
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(table), path)
    return path


def test_the_answer_is_that_of_python(piwo, log: Path, tmp_path: Path) -> None:
    file = tmp_path / "fixed.piwo"
    library.slates.EpsilonSlate(library.slates.Deterministic(["b", "c"]), 0.2, ITEMS).save(file)
    rows = library.slates.read(
        str(log),
        slate="shown",
        rewards="rs",
        propensities="mu_above",
        marginals="mu_alone",
        unit="visitor",
        position_weights=[1.0, 0.5],
        actions=ITEMS,
    )
    policies: dict[str, library.slates.SlatePolicy] = {
        "slate:c,b": library.slates.Deterministic(["c", "b"]),
        "column:best": library.slates.Deterministic("best"),
        "uniform": library.slates.Uniform(ITEMS),
        str(file): library.slates.load(file),
        "pi_above": TARGET_COLUMNS,
    }
    made = library.slates.compare(rows, policies, delta=0.1, interval="mixture")
    words = [log, *COLUMNS, "--marginals", "mu_alone", *TARGETS, "--unit", "visitor"]
    words += ["--position-weights", "1,.5", "--actions", "a,b,c", "--delta", ".1"]
    for name in list(policies)[:-1]:
        words += ["--policy", name]
    words += ["--interval", "mixture"]
    ran = piwo("slates", *words, "--json")
    assert (ran.code, ran.err) == (0, "")
    document = ran.document
    expected = made.to_dict()
    for one in (*document["policies"], *expected["evaluations"]):
        del one["notes"]  # with options, and with arguments
    for one, same in zip(document["policies"], made.evaluations, strict=True):
        said = (one.pop("in_sample"), one.pop("certified"))
        assert said == (same.in_sample, same.certified_better)
    assert document["decision"]["sentence"] == library.slates.decide(made).sentence
    assert document["gate"] is None
    assert document["policies"] == expected["evaluations"]
    assert (document["delta"], document["delta_each"]) == (0.1, 0.1 / 15)
    assert set(document["left_out"]["uniform"]) == {"adaptive", "pseudo-inverse"}
    assert document["log"]["columns"]["unit"] == "visitor"
    text = piwo("slates", *words).out
    assert text.splitlines()[0] == document["decision"]["sentence"]
    assert "log.parquet: 200 rows, 100 units, 3 actions, up to 2 slots" in text
    assert "cascade assumes: the reward of a slot depends on its own action and those" in text
    claim = "hold together with probability at least 90 %, if their assumptions hold; so do all "
    assert f"{claim}lower bounds on improvements, and all upper ones, each as a" in text
    assert "not used: --estimator=adaptive needs a column" in text
    assert "note: by unit: each value of 'visitor' counts the same" in text


def test_logs_of_whole_rewards_uniform_loggers_and_weights(piwo, tmp_path: Path) -> None:
    table = {"slate": [[1, 2], [2, 1], [3, 1]] * 20, "r": [1.0, 0.0, 2.0] * 20, "s": [2.0] * 60}
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    words = ["slates", "log.parquet", "--reward", "r", "--reward-range", "0,2", "--json"]
    words += ["--behavior", "uniform", "--actions", "1..3", "--policy", "slate:1,2"]
    found = piwo(*words).document
    assert [one["estimator"] for one in found["policies"]] == ["standard", "pseudo-inverse"]
    assert found["policies"][0]["value"] == pytest.approx(2.0)
    (one,) = piwo(*words, "--weight", "s", "--estimator", "standard").document["policies"]
    assert (one["lower"], one["guarantee"]) == (None, "none")
    (one,) = piwo(
        *words, "--weight", "s", "--estimator", "standard", "--interval", "normal"
    ).document["policies"]
    assert one["guarantee"] == "asymptotic"
    assert one["value"] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no policy was named; give --policy slate:a,b,c"),
        (["--policy", "x"], "no policy and no file 'x', expected uniform, slate:a,b,c"),
        (["--policy", "uniform", "--policy", "uniform"], "'uniform' was named twice"),
        (["--policy", "uniform", "--behavior", "uniform"], "--behavior uniform needs the items"),
        (
            ["--policy", "uniform", "--behavior", "uniform", "--actions", "a,b,c"],
            "(one or more of --propensities, --marginals, --slate-propensity) or as --behavior",
        ),
        (["--policy", "uniform", "--reward", "r"], "expected one of --reward (of the slate) and"),
        (
            ["--policy", "uniform", "--estimator", "independent"],
            "name its column (--marginals), or declare independent slots (--independent)",
        ),
        (
            ["--target-marginals", "pi_alone", "--estimator", "cascade"],
            "given those above it of the target; name its column (--target-propensities)",
        ),
        (
            ["--target-marginals", "pi_alone", "--estimator", "standard"],
            "name its column, of slots (--target-propensities) or of whole slates",
        ),
        (["--policy", "uniform", "--unit", "no"], "no column 'no' for the unit"),
        (["--policy", "uniform", "--unit", "visitor", "--weight", "s"], "--unit and --weight"),
        (["--policy", "uniform", "--slots", "1"], "more than 1 slots"),
        (["--policy", "uniform", "--delta", "2"], "--delta is 2"),
        (["--policy", "column:no"], "no column 'no'"),
        (["--policy", "uniform", "--position-weights", "1"], "--position-weights has 1 entries"),
    ],
)
def test_errors_are_one_line(piwo, log: Path, words: list[str], message: str) -> None:
    ran = piwo("slates", log, *COLUMNS, *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_a_log_of_vowpal_wabbit_states_its_columns(piwo, tmp_path: Path) -> None:
    path = tmp_path / "page.vw"
    decision = "ccb shared | x\nccb action | a\nccb action | b\nccb slot 1:-1:0.5 |\n\n"
    path.write_text(decision * 3 + "ccb shared | x\nccb action | a\nccb action | b\nccb slot |\n")
    ran = piwo("slates", path, "--policy", "slate:1", "--json")
    assert ran.code == 0
    assert "1 of 4 are not labeled decisions (no label 1)" in ran.err
    (one,) = (x for x in ran.document["policies"] if x["estimator"] == "standard")
    assert (one["rows"], one["value"]) == (3, 2.0)
    ran = piwo("slates", path, "--policy", "slate:1", "--rewards", "rs")
    assert (ran.code, "whose lines state slates" in ran.err) == (2, True)


def test_learning_is_that_of_python_and_its_file_is_valued_on_other_rows(
    piwo, tmp_path: Path
) -> None:
    from tests.slates.test_provenance import ITEMS as THREE
    from tests.slates.test_provenance import world

    for name, seed in (("old", 0), ("new", 1)):
        pq.write_table(pa.table(world(800, seed)), tmp_path / f"{name}.parquet")
    out = tmp_path / "page.piwo"
    log = ("--rewards", "rs", "--behavior", "uniform", "--actions", ",".join(THREE))
    old, new = tmp_path / "old.parquet", tmp_path / "new.parquet"
    ran = piwo("slates", old, *log, "--context", "x", "--learn", out, "--seed", "3", "--json")
    assert (ran.code, ran.err) == (0, "")
    rows = library.slates.read(
        str(old), rewards="rs", behavior=library.slates.Uniform(THREE), actions=THREE, context="x"
    )
    made = library.slates.learn(rows, random_state=3)
    expected = made.evaluation.to_dict()
    assert ran.document["evaluation"]["value"] == expected["value"]
    assert ran.document["evaluation"]["lower"] == expected["lower"]
    saved = library.slates.load(out)
    contexts = [[-1.0], [1.0]]
    assert saved.act(contexts).slates == made.policy.act(contexts).slates
    fresh = piwo("slates", new, *log, "--policy", out, "--estimator", "independent", "--json")
    assert fresh.document["policies"][0]["lower"] is not None
    again = piwo("slates", old, *log, "--policy", out)
    assert again.code == 0
    assert "the policy was learned from these rows (" in again.out
    shown = piwo("slates", old, *log, "--context", "x", "--learn", out)
    assert f"saved to {out}" in shown.out


def test_learning_refuses_what_python_refuses(piwo, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.piwo"
    ran = piwo("slates", log, *COLUMNS, "--learn", out)
    assert (ran.code, "linear in the context" in ran.err) == (2, True)
    ran = piwo("slates", log, *COLUMNS, "--context", "s", "--learn", out)
    assert (ran.code, "marginal" in ran.err) == (2, True)
    ran = piwo("slates", log, *COLUMNS, "--context", "s", "--learn", out, "--policy", "uniform")
    assert (ran.code, "leave out policies" in ran.err) == (2, True)
    ran = piwo("slates", log, *COLUMNS, "--context", "s", "--learn", log)
    assert ran.code == 2
    assert not out.exists()


def test_actions_that_change_are_named_by_a_column(piwo, tmp_path: Path) -> None:
    table = {
        "shown": [["a", "b"], ["c"], ["b", "c"]] * 20,
        "could": [["b", "a", "d"], ["c", "a"], ["c", "d", "b", "a"]] * 20,
        "rs": [[1.0, 0.0], [1.0], [0.0, 1.0]] * 20,
        "mu_above": [[1 / 3, 1 / 2], [1 / 2], [1 / 4, 1 / 3]] * 20,
    }
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(table), path)
    policies = {
        "slate:c,b,a": library.slates.Deterministic(["c", "b", "a"]),
        "uniform": library.slates.Uniform(["a", "b", "c", "d"]),
    }
    rows = library.slates.read(
        str(path), slate="shown", rewards="rs", propensities="mu_above", eligible="could"
    )
    made = library.slates.compare(rows, policies).to_dict()
    words = [path, *COLUMNS, "--policy", "slate:c,b,a", "--policy", "uniform"]
    ran = piwo("slates", *words, "--eligible", "could", "--json")
    assert (ran.code, ran.err) == (0, "")
    values = [one["value"] for one in ran.document["policies"]]
    assert values == [one["value"] for one in made["evaluations"]]
    assert values[0] == pytest.approx(2 / 3)
    assert ran.document["log"]["columns"]["eligible"] == "could"


def test_a_feature_names_the_actions_of_ccb(piwo, tmp_path: Path) -> None:
    lines(tmp_path / "log.dsjson", *events(*OFFERS))
    words = ("slates", "log.dsjson", "--policy", "slate:pie,tea,soup", "--estimator", "cascade")
    ran = piwo(*words, "--items-label", "id", "--json")
    assert ran.document["policies"][0]["value"] == pytest.approx((2 + 0 + 2 * 0.5 + 4) / 3)
    assert ran.document["log"]["columns"]["eligible"] == "eligible"
    refused = piwo(*words, "--items-label", "price").err
    assert "at price (--items-label), which names actions in 3 lines" in refused


def ranked(tmp_path: Path, **more: list) -> list[str]:
    """A log of uniform rankings in which the page a,b is better, as words of the command."""
    table = {"slate": [["a", "b"], ["b", "a"]] * 200, "rs": [[1.0, 0.0], [0.0, 0.0]] * 200, **more}
    pq.write_table(pa.table(table), tmp_path / "pages.parquet")
    log = str(tmp_path / "pages.parquet")
    return ["slates", log, "--rewards", "rs", "--behavior", "uniform", "--actions", "a,b"]


def test_the_gate_passes_what_is_certified_and_refuses_the_rest(piwo, tmp_path: Path) -> None:
    words = ranked(tmp_path)
    ran = piwo(*words, "--policy", "slate:a,b", "--gate")
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith("Switch to slate:a,b: it earns at least 0.431 more")
    assert "gate: passed: slate:a,b" in ran.out
    both = [*words, "--policy", "slate:a,b", "--policy", "slate:b,a"]
    ran = piwo(*both, "--gate", "--json")
    assert (ran.code, ran.document["gate"]["passed"]) == (1, False)
    why = "not certified better than the logging policy by standard"
    assert ran.document["gate"]["refused"] == {"slate:b,a": [why]}
    assert piwo(*both, "--gate", "slate:a,b").code == 0
    least = [*words, "--policy", "slate:a,b", "--estimator", "independent", "--at-least", "1.5"]
    assert piwo(*least, "--gate").code == 1
    ran = piwo(*least)
    assert (ran.code, "--at-least got 1.5 without --gate" in ran.err) == (2, True)
    ran = piwo(*words, "--policy", "slate:a,b", "--gate", "--gate-policy", "no")
    assert (ran.code, "expected one of the policies: slate:a,b" in ran.err) == (2, True)


def test_users_that_repeat_refuse_the_gate(piwo, tmp_path: Path) -> None:
    words = [*ranked(tmp_path, user_id=[i // 4 for i in range(400)]), "--policy", "slate:a,b"]
    ran = piwo(*words, "--gate")
    assert ran.code == 1
    assert ran.out.startswith("Cannot be told: column 'user_id' has about 4 rows a value")
    assert piwo(*words, "--gate", "--independent-rows").code == 0


def test_an_assumption_is_chosen_and_behaviors_are_estimated_as_in_python(
    piwo, tmp_path: Path
) -> None:
    words = [*ranked(tmp_path, young=[0, 0, 1, 1] * 100), "--policy", "slate:a,b"]
    ran = piwo(*words, "--estimator", "choose", "--seed", "3", "--json")
    log = library.slates.read(
        str(tmp_path / "pages.parquet"),
        rewards="rs",
        behavior=library.slates.Uniform(["a", "b"]),
        context="young",
    )
    target = library.slates.Deterministic(["a", "b"])
    made = library.slates.choose(log, target, random_state=3)
    (one,) = ran.document["policies"]
    assert (one["estimator"], one["lower"]) == ("independent", made.evaluation.lower)
    assert [x["lower"] for x in ran.document["tried"]["slate:a,b"]] == [x.lower for x in made.tried]
    assert piwo(*words, "--estimator", "choose", "--gate").code == 0
    assert "slate:a,b was tried on" in piwo(*words, "--estimator", "choose").out
    words += ["--context", "young", "--estimator", "adapt"]
    ran = piwo(*words, "--json")
    (one,) = ran.document["policies"]
    found = library.slates.adapt(log, target)
    assert (one["value"], one["lower"], one["interval"]) == (found.evaluation.value, None, "none")
    assert ran.document["rules"]["slate:a,b"] == [list(tree) for tree in found.rules]
    ran = piwo(*words)
    assert ran.out.startswith("Cannot be told: user behaviors were estimated by trees")
    assert "slate:a,b, part 5: " in ran.out
    ran = piwo(*words[:-1], "adapt,standard")
    assert (ran.code, "name adapt alone" in ran.err) == (2, True)


def test_a_policy_that_was_learned_from_the_log_is_said_to_prove_nothing(
    piwo, tmp_path: Path
) -> None:
    words, out = ranked(tmp_path, young=[0.0, 0.0, 1.0, 1.0] * 100), tmp_path / "page.piwo"
    ran = piwo(*words, "--context", "young", "--learn", out, "--gate")
    assert ran.code == 0
    assert ran.out.startswith("Switch to learned slates: it earns at least ")
    ran = piwo(*words, "--policy", out, "--gate")
    assert ran.code == 1
    assert "learned from these rows, which therefore prove nothing" in ran.out.splitlines()[0]
    assert ran.next == ["policy", "show", str(out)]
    assert ran.why.endswith("take other rows than those that it was learned from")
    assert piwo(*ran.next).code == 0
    assert "delta is shared" not in ran.out


def test_a_learned_policy_that_the_gate_refuses_is_not_saved(piwo, tmp_path: Path) -> None:
    equal = [[1.0, 0.0], [1.0, 0.0]] * 200
    words = [*ranked(tmp_path, young=[0.0, 0.0, 1.0, 1.0] * 100, equal=equal)]
    words[words.index("rs")] = "equal"
    out = tmp_path / "page.piwo"
    ran = piwo(*words, "--context", "young", "--learn", out, "--gate")
    assert (ran.code, out.exists()) == (1, False)
    assert "the gate did not pass" in ran.out


def test_the_next_line_can_be_typed(piwo, log: Path) -> None:
    words = ["slates", log, *COLUMNS, "--marginals", "mu_alone", "--unit", "visitor", *TARGETS]
    words += ["--policy", "column:best", "--position-weights", "1,.5", "--slots", 2]
    ran = piwo(*words)
    # columns of probabilities and of slates are no context
    assert ran.next[-4:] == ["--context", "behavior,s", "--learn", "page.piwo"]
    assert "known before the decision" in ran.why
    learned = piwo(*ran.next)
    assert (learned.code, learned.err) == (0, "")
    assert piwo(*learned.next).code == 0
    assert piwo(*words, "--context", "s").next[-2:] == ["--learn", "page.piwo"]
    # rewards of whole slates: nothing can be learned, and the gate is asked
    table = pq.read_table(log)
    pq.write_table(table.append_column("r", pa.array([0.0, 1.0] * 100)), log)
    words = ["slates", log, "--slate", "shown", "--reward", "r", "--propensities", "mu_above"]
    ran = piwo(*words, "--target-propensities", "pi_above", "--slots", 2)
    assert ran.next[-3:] == ["--target-propensities", "pi_above", "--gate"]
    again = piwo(*ran.next)
    assert again.code in (0, 1)
    assert (again.next, again.why) == (ran.next, "when there are new rows")


@pytest.mark.parametrize(
    "named", ["--learn x.piwo", "--check", "--estimator choose", "--estimator adapt"]
)
def test_what_needs_marginal_probabilities_is_named_as_it_was_typed(
    piwo, tmp_path: Path, named: str
) -> None:
    record = {"slate": ["a", "b"], "rewards": [1, 0], "p": [0.5, 1.0], "hour": 1.0}
    (tmp_path / "above.jsonl").write_text((json.dumps(record) + "\n") * 200)
    words = ["above.jsonl", "--rewards", "rewards", "--propensities", "p", "--context", "hour"]
    if named.startswith("--estimator"):
        words += ["--policy", "slate:a,b"]
    ran = piwo("slates", *words, *named.split())
    assert ran.code == 2
    asked = named.removesuffix(" x.piwo")
    assert ran.err.startswith(f"piwo: error: {asked} needs the marginal probability of each shown")
    assert ("or try fewer: --estimator=standard,cascade" in ran.err) == (asked[12:] == "choose")
