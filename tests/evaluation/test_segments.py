"""Results by segment: joint, the same as on the rows of a segment alone, refused by outcomes."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.engines import using
from piwo.evaluation.segment import Segment

N = 900
LABELS = ["a", "b"]
BOUNDS = ("value", "lower", "upper", "improvement_lower", "improvement_upper")
BOUNDS += ("logging_value", "ess", "baseline_value")


def rows(seed: int = 0, n: int = N):
    """Two actions, contexts, vectors, users with three rows, and a country of three values."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    mu = np.where(x > 0, 0.7, 0.3)
    b = rng.random(n) < mu
    country = rng.choice(["DE", "FR", "x\x1b[31m<b>"], n, p=[0.5, 0.4, 0.1])
    return {
        "action": np.where(b, "b", "a"),
        "reward": (rng.random(n) < np.where(b == (x > 0), 0.7, 0.3)) * 1.0,
        "propensity": np.where(b, mu, 1 - mu),
        "vectors": pa.FixedSizeListArray.from_arrays(
            pa.array(np.column_stack([1 - mu, mu]).ravel()), 2
        ),
        "pi": rng.random(n),
        "x": x,
        "id": np.arange(n),
        "user": np.arange(n) // 3,
        "country": country,
    }


def part(table, keep):
    """The rows of a mask, by hand."""
    return {name: pa.array(values).filter(pa.array(keep)) for name, values in table.items()}


def always(label: str = "b"):
    return piwo.policies.Constant(label, LABELS)


def test_value_and_mix_by_hand() -> None:
    """Two rows of DE, of which one was b at 1/4 with reward 1; b alone earns 1/.25 / 2."""
    log = piwo.Log.from_arrays(
        action=["b", "a", "a"],
        reward=[1.0, 1.0, 0.0],
        propensity=[0.25, 0.75, 0.5],
        segments={"country": ["DE", "DE", "FR"]},
        actions=LABELS,
    )
    found = piwo.evaluate(log, always(), by="country")
    germany, france = found.segments
    assert (germany.label, germany.rows, germany.value, germany.logging_value) == ("DE", 2, 2.0, 1)
    assert (germany.today, germany.then) == ({"a": 0.5, "b": 0.5}, {"a": 0.0, "b": 1.0})
    assert (france.value, france.today, france.delta) == (0.0, {"a": 1.0, "b": 0.0}, 0.025)
    assert "country 'FR' (1 rows)" in str(found)
    assert "a 50 % -> 0 %, b 50 % -> 100 %" in str(germany)
    (note,) = [note for note in found.notes if note.kind == "segments"]
    assert "by 'country': 2 segments, each at delta 0.025" in note


OPTIONS = {
    "plain": {},
    "mixture": {"interval": "mixture"},
    "ix": {"interval": "ix"},
    "normal": {"interval": "normal"},
    "clip": {"estimator": "clip"},
    "baseline": {"baseline": piwo.policies.Constant("a", LABELS)},
    "cap": {"rate_cap": 0.9},
    "factor": {"propensity_factor": 1.2},
    "guardrail": {"guardrail": "pi<=.9"},
}
READ = {
    "by key": {"key": "id"},
    "by unit": {"unit": "user"},
    "vectors": {"key": "id", "propensities": "vectors", "propensity": "propensity"},
    "learning": {"logger": "learning", "key": "id"},
}


# Blocks in time have other ends in a part of the rows, so that logs of learners bet on all rows.
PAIRS = {
    "by key": ("plain", "clip", "factor"),
    "by unit": ("plain", "normal"),
    "vectors": ("baseline", "cap", "guardrail"),
    "learning": ("mixture", "ix"),
}


@pytest.mark.parametrize(("how", "name"), [(how, x) for how in PAIRS for x in PAIRS[how]])
def test_a_segment_is_a_log_of_its_rows_at_its_part_of_delta(how: str, name: str) -> None:
    """The naive twin: the rows of each value, filtered by hand."""
    table, options, columns = rows(), OPTIONS[name], READ[how]
    roles = {"actions": LABELS, "outcomes": "pi", **columns}
    log = piwo.read(table, segments="country", **roles)
    policies = {"b": always()}
    if name == "plain":
        policies["uniform"] = piwo.policies.Uniform(LABELS)
    found = piwo.compare(log, policies, by="country", delta=0.06, **options)
    countries = table["country"]
    for place in range(3):
        label = found["b"].segments[place].label
        twin = piwo.read(part(table, countries == label), **roles)
        own = {key: value for key, value in options.items() if key != "guardrail"}
        shared = 0.06 / (2 if "guardrail" in options else 1)
        alone = piwo.compare(twin, policies, delta=shared / 3, **own)
        for key, one in alone.items():
            mine = found[key].segments[place]
            assert (mine.rows, mine.units, mine.bound) == (one.rows, one.units, one.interval)
            assert mine.delta == one.delta
            for field in BOUNDS:
                got, expected = getattr(mine, field), getattr(one, field)
                if expected is None:
                    assert got is None
                else:
                    assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_a_certificate_by_segment_is_that_of_its_rows() -> None:
    table = rows()
    log = piwo.read(table, key="id", segments="country")
    policies = {"b": always(), "a": always("a"), "again": always()}
    shares = {"b": 0.5, "a": 0.25, "again": 0.25}
    for options in ({"earlier": 3}, {"shares": shares}, {"baseline": "a"}):
        made = piwo.certify(log, policies, by="country", **options)
        for place in range(3):
            label = made["b"].segments[place].label
            twin = piwo.read(part(table, table["country"] == label), key="id")
            alone = piwo.certify(twin, policies, delta=0.05 / 3, **options)
            for key, one in alone.items():
                mine = made[key].segments[place]
                assert mine.lower == pytest.approx(one.value_lower, abs=1e-12)
                assert mine.improvement_lower == pytest.approx(one.improvement_lower, abs=1e-12)
                assert mine.upper is None
        assert made["b"].segments == made["again"].segments
    record = made["b"].to_dict()
    assert piwo.Certificate.from_dict(record) == made["b"]
    old = {key: value for key, value in record.items() if key != "segments"}
    assert piwo.Certificate.from_dict(old).segments == ()
    for damage in ({"rows": -1}, {"lower": "x"}, {"label": 3}, {"today": {"a": 2.0}}, {"delta": 7}):
        broken = {**record, "segments": [{**record["segments"][0], **damage}]}
        with pytest.raises(piwo.errors.FileError, match="the certificate is damaged"):
            piwo.Certificate.from_dict(broken)


def test_a_learned_policy_by_segment_rests_on_the_rows_of_its_certificate() -> None:
    table = rows(n=3000)
    log = piwo.read(table, key="id", context="x", segments="country")
    for learner in (
        piwo.PIWO(piwo.IX((0.1, 1.0)), piwo.oracles.Ridge()),
        piwo.Auto([piwo.oracles.Ridge()], refit=False),
    ):
        made = learner.fit(log).certificate_
        found = piwo.learners.segments_of_learned("country", log, learner.policy_, made)
        assert sum(one.rows for one in found) == made.rows
        same = replace(log, columns=replace(log.columns, segments=("one",)))
        ones = pa.table({**table, "one": np.ones(3000, int)})
        same = replace(same, source=piwo.read(ones).source)
        (whole,) = piwo.learners.segments_of_learned("one", same, learner.policy_, made)
        assert whole.lower == pytest.approx(made.value_lower, abs=1e-12)
        assert whole.improvement_lower == pytest.approx(made.improvement_lower, abs=1e-12)
    # A posterior is chosen by the rows of its certificate.
    posterior = piwo.PACBayesLinear(draws=4).fit(log)
    with pytest.raises(piwo.UsageError, match="takes a policy that is certified on held-out rows"):
        piwo.learners.segments_of_learned("country", log, posterior.policy_, posterior.certificate_)
    other = piwo.read(rows(seed=1, n=3000), key="id", context="x", segments="country")
    with pytest.raises(piwo.UsageError, match="not the rows that the policy was certified on"):
        piwo.learners.segments_of_learned("country", other, learner.policy_, made)
    inside = piwo.PIWO(
        oracle=piwo.oracles.Exhaustive([always(), always("a")]), certificate="in-sample"
    ).fit(log)
    with pytest.raises(piwo.UsageError, match="takes a policy that is certified on held-out rows"):
        piwo.learners.segments_of_learned("country", log, inside.policy_, inside.certificate_)


def test_the_pass_gives_the_same_numbers_in_threads_and_in_pieces(monkeypatch) -> None:
    log = piwo.read(rows(), unit="user", segments="country")
    expected = piwo.evaluate(log, always(), by="country").segments

    class Serial:
        def map(self, fn, fragments):
            return [fn(x) for x in fragments]

    with using(Serial()):
        assert piwo.evaluate(log, always(), by="country").segments == expected


def test_labels_are_text_and_missing_values_are_a_segment(tmp_path) -> None:
    table = {name: rows(n=60)[name] for name in ("action", "reward", "propensity")}
    kinds = {
        "whole": ([1, 2, 3] * 20, ["1", "2", "3"]),
        "with missing": ([1.0, 2.0, np.nan] * 20, ["1", "2", None]),
        "truth": ([True, False, None] * 20, ["false", "true", None]),
        "text": (["01", "1", ""] * 20, ["", "01", "1"]),
        "dates": (
            np.array(["2026-01-01", "2026-01-02", "NaT"] * 20, "M8[D]"),
            ["2026-01-01", "2026-01-02", None],
        ),
        "dictionary": (pa.array(["u", "v", None] * 20).dictionary_encode(), ["u", "v", None]),
        "empty": (pa.nulls(60), [None]),
    }
    for values, labels in kinds.values():
        log = piwo.read({**table, "kind": values}, segments="kind")
        found = piwo.evaluate(log, always(), by="kind", interval="mixture").segments
        assert [one.label for one in found] == labels
    assert found[0].name == "kind is missing"
    path = tmp_path / "log.csv"
    lines = zip(*(np.asarray(values).tolist() for values in table.values()), strict=True)
    text = "".join(f"{','.join(map(str, x))},{'01' if i % 3 else 1}\n" for i, x in enumerate(lines))
    path.write_text("action,reward,propensity,zip\n" + text)
    found = piwo.evaluate(
        piwo.read(path, segments="zip"), always(), by="zip", interval="mixture"
    ).segments
    assert [one.label for one in found] == ["01", "1"]


def test_context_columns_and_columns_without_a_role_split_results() -> None:
    table = {**rows(), "hour": np.arange(N) % 4}
    found = piwo.evaluate(
        piwo.read(table, context="hour"), always(), by="hour", interval="mixture"
    ).segments
    assert [one.label for one in found] == ["0", "1", "2", "3"]
    undeclared = piwo.evaluate(piwo.read(table), always(), by="hour", interval="mixture").segments
    assert [one.lower for one in undeclared] == [one.lower for one in found]
    unlogged = {name: table[name] for name in ("action", "reward", "x", "country")}
    estimated = piwo.estimate_propensities(unlogged, context="x", segments="country")
    assert len(piwo.evaluate(estimated, always(), by="country", interval="mixture").segments) == 3
    users = piwo.read({**table, "user": np.arange(N) // 90}, unit="user")
    by_user = piwo.evaluate(users, always(), by="user", interval="mixture").segments
    assert [one.units for one in by_user] == [1] * 10


@pytest.mark.parametrize(
    ("by", "options", "kind", "said"),
    [
        ("action", {}, piwo.UsageError, "cannot be split by 'action', which depends on what was"),
        ("reward", {}, piwo.UsageError, "expected a column that is known before the decision"),
        ("propensity", {}, piwo.UsageError, "cannot be split by 'propensity'"),
        ("pi", {"policy_columns": "pi"}, piwo.UsageError, "cannot be split by 'pi'"),
        ("pi", {"outcomes": "pi"}, piwo.UsageError, "cannot be split by 'pi'"),
        ("pi", {"action_cost": "pi"}, piwo.UsageError, "cannot be split by 'pi'"),
        ("vectors", {"propensities": "vectors", "actions": LABELS}, piwo.UsageError, "'vectors'"),
        ("id", {}, piwo.UsageError, "column 'id' has 900 values, expected at most 100"),
        ("x", {}, piwo.DataError, "column 'x' holds numbers that are not whole"),
        ("vectors", {}, piwo.DataError, "column 'vectors' has type fixed_size_list"),
        ("contry", {}, piwo.DataError, "no column 'contry' for the segments; did you mean 'count"),
        (["country"], {}, piwo.UsageError, "'country'., expected the name of a column"),
    ],
)
def test_other_columns_are_refused_in_one_line(by, options, kind, said: str) -> None:
    with pytest.raises(kind, match=said) as caught:
        piwo.evaluate(piwo.read(rows(), **options), always(), by=by)
    assert "\n" not in str(caught.value)
    if options:
        with pytest.raises(kind, match=said):
            piwo.read(rows(), segments=by, **options)


def test_very_many_values_are_not_counted_to_the_end(monkeypatch) -> None:
    monkeypatch.setattr("piwo.logs.reader.MOST_COUNTED", 500)
    monkeypatch.setattr("piwo.evaluation.segments.MOST_COUNTED", 500)
    with pytest.raises(piwo.UsageError, match="has more than 500 values"):
        piwo.evaluate(piwo.read(rows()), always(), by="id")


def test_what_has_no_segments_says_so() -> None:
    log = piwo.read(rows(), segments="country")
    with pytest.raises(piwo.UsageError, match="a later look may find new segments; leave by or"):
        piwo.evaluate(log, always(), by="country", horizon=5000)
    with pytest.raises(piwo.UsageError, match="reads all rows again and has no intervals by seg"):
        piwo.evaluate(log, always(), by="country", interval="bootstrap")
    with pytest.raises(piwo.UsageError, match="segments show theirs at each call; leave one of by"):
        piwo.certify(log, {0: always()}, by="country", series=True)


def test_no_bound_of_all_rows_is_none_of_a_segment() -> None:
    table = rows()
    log = piwo.read(table, context="x", segments="country")
    learned = piwo.PIWO(piwo.IX(0.1), piwo.oracles.Ridge(), certificate=None).fit(log).policy_
    wrong = {**table, "propensity": table["propensity"] / 4}
    for found, kind in (
        (piwo.evaluate(log, learned, by="country"), "in-sample"),
        (
            piwo.evaluate(piwo.read(wrong, segments="country"), always(), by="country"),
            "contradicted",
        ),
        (
            piwo.evaluate(
                piwo.read(table, segments="country", where="reward < 2"), always(), by="country"
            ),
            "condition",
        ),
    ):
        for one in found.segments:
            assert (one.lower, one.upper, one.improvement_lower) == (None, None, None)
            assert one.notes[0].kind in (kind, found.no_interval.kind)
            assert one.value is not None
    (made,) = piwo.certify(
        piwo.read(wrong, segments="country"), {0: always()}, by="country"
    ).values()
    assert all(one.lower is None for one in made.segments)


def test_a_logger_that_seems_to_learn_counts_as_learning_in_every_segment() -> None:
    rng = np.random.default_rng(0)
    n = 2000
    p = np.where(np.arange(n) < n // 2, 0.5, 0.8)
    a = rng.random(n) < p

    def log_of(seed: int):
        return piwo.Log.from_arrays(
            context=np.random.default_rng(seed).integers(0, 40, (n, 1)) * 1.0,
            action=np.where(a, "a", "b"),
            reward=rng.integers(0, 2, n) * 1.0,
            propensity=np.where(a, p, 1 - p),
            segments={"day": np.arange(n) // 1000},
            actions=LABELS,
        )

    learner = piwo.PIWO(piwo.IX(0.1), piwo.oracles.Ridge(), certificate=None)
    policy = learner.fit(log_of(1)).policy_
    found = piwo.evaluate(log_of(2), policy, by="day")
    assert found.logger == "learning"
    assert {one.bound for one in found.segments} == {"mixture"}


def test_few_rows_get_a_wide_interval_and_a_note() -> None:
    table = rows()
    table["country"] = np.where(np.arange(N) < 5, "tiny", "large")
    large, tiny = piwo.evaluate(piwo.read(table), always(), by="country").segments
    assert (tiny.label, tiny.rows) == ("tiny", 5)
    assert tiny.upper - tiny.lower > 0.8 > large.upper - large.lower
    assert "effective-sample" in {note.kind for note in tiny.notes}
    assert "\x1b" not in str(replace(tiny, label="\x1b[31m"))
    assert isinstance(tiny, Segment)


@pytest.mark.statistics
def test_all_segments_are_right_together_with_probability_1_minus_delta() -> None:
    """Five segments of 60 rows, in which b is exactly as good as the logger, worth 1/2."""
    delta, runs, wrong, improved = 0.3, 60, 0, 0
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        n = 300
        b = rng.random(n) < 0.5
        table = {
            "action": np.where(b, "b", "a"),
            "reward": (rng.random(n) < 0.5) * 1.0,
            "propensity": np.full(n, 0.5),
            "part": np.arange(n) % 5,
        }
        found = piwo.evaluate(piwo.read(table), always(), by="part", delta=delta).segments
        assert {one.delta for one in found} == {delta / 5}
        # at so large a delta the ends of an interval may cross, and no bound is given then
        found = [one for one in found if one.lower is not None]
        wrong += any(not one.lower <= 0.5 <= one.upper for one in found)
        improved += any(one.improvement_lower > 0.0 for one in found)
    # three standard errors of the simulation are tolerated
    most = runs * delta + 3.0 * (runs * delta * (1.0 - delta)) ** 0.5
    assert max(wrong, improved) <= most
