"""Results as tables: what is printed is true, what is shown is inert, frames are the user's."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import piwo
from piwo.display import Display, Ruler, frame_of

HOSTILE = "<script>alert('x')</script>\x1b[31m\n\"&\u202e"
ROWS = {"action": [HOSTILE, "b"] * 200, "reward": [1, 0] * 200, "propensity": [0.5] * 400}


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.attributes, self.text = set(), set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data):
        self.text.append(data)


def results(log):
    """One result of every kind, with hostile names."""
    policies = {
        HOSTILE: piwo.policies.Constant(HOSTILE, log.actions),
        "uniform": piwo.policies.Uniform(log.actions),
    }
    found = piwo.compare(log, policies)
    policy = policies[HOSTILE]
    monitor = piwo.Monitor(policy, horizon="universal").update(log)
    return [
        found,
        found[HOSTILE],
        piwo.select(log, policies, threshold=0.2),
        piwo.check(log),
        piwo.certify(log, policies)[HOSTILE],
        piwo.regret_certificate(log, policy, {HOSTILE: policies["uniform"]}),
        piwo.evaluation.coverage(log, policy, gamma=0.1),
        monitor.look(),
    ]


def test_html_of_every_result_is_small_and_holds_no_markup_from_the_data():
    for result in results(piwo.read(pa.table(ROWS))):
        page = result._repr_html_()
        found = Tags()
        found.feed(page)
        assert found.tags <= {
            *("div", "table", "caption", "thead", "tbody", "tr", "th", "td"),
            *("details", "summary", "ul", "li"),
        }, type(result)
        assert found.attributes <= {"style", "scope", "colspan"}
        assert len(page) < 20_000
        assert all(x.isprintable() for x in "".join(found.text))


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (pd.DataFrame(ROWS), pd.DataFrame),
        (pl.DataFrame(ROWS), pl.DataFrame),
        (pl.LazyFrame(ROWS), pl.DataFrame),
        (pa.table(ROWS), pa.Table),
    ],
)
def test_frames_are_of_the_library_of_the_log(made, kind):
    log = piwo.read(made)
    for result in results(log):
        # A monitor takes logs of any kind, and remembers none.
        if not isinstance(result, piwo.evaluation.Look):
            assert isinstance(result.to_frame(), kind), type(result)
        assert isinstance(result.to_frame("polars"), pl.DataFrame)
    part = log.split(0.5).train
    assert isinstance(piwo.check(part).to_frame(), kind)


def test_frames_of_arrays_are_those_of_their_columns():
    frame = pd.DataFrame(ROWS)
    log = piwo.Log.from_arrays(**{name: frame[name] for name in ROWS})
    assert isinstance(piwo.check(log).to_frame(), pd.DataFrame)
    assert "frames" not in piwo.check(log).to_dict()


def test_a_frame_has_the_numbers_of_the_records():
    log = piwo.read(pd.DataFrame(ROWS))
    found = piwo.compare(log, {"u": piwo.policies.Uniform(log.actions)})
    (row,) = found.to_frame().to_dict("records")
    for name in ("value", "lower", "upper", "improvement_lower", "ess", "rows", "delta"):
        assert row[name] == getattr(found["u"], name)
    health = piwo.check(log)
    assert list(health.to_frame()["count"]) == [200, 200]


def test_a_comparison_is_a_mapping_in_the_order_given_and_prints_the_best_first():
    log = piwo.read(pa.table({**ROWS, "action": ["a", "b"] * 200}))
    policies = {x: piwo.policies.Constant(x, log.actions) for x in ("b", "a")}
    found = piwo.compare(log, policies)
    assert list(found) == ["b", "a"]
    assert found == dict(found.items())
    assert {**found}["a"] is found["a"]
    lines = str(found).splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["a", "b"]
    assert found.to_frame()["name"].to_pylist() == ["a", "b"]
    assert repr(found) == str(found)


def test_printed_bounds_are_never_tighter_than_the_bounds():
    generator = np.random.default_rng(0)
    for _ in range(200):
        low, high = np.sort(generator.normal(size=2) * 10.0 ** generator.integers(-8, 9))
        ruler = Ruler.of([(low, high)])
        assert float(ruler.lower(low).replace(",", "")) <= low + 1e-9 * abs(low)
        assert float(ruler.upper(high).replace(",", "")) >= high - 1e-9 * abs(high)
        assert float(ruler.upper(high).replace(",", "")) - float(
            ruler.lower(low).replace(",", "")
        ) <= 1.25 * (high - low)


def test_many_rows_and_notes_are_counted_not_shown():
    rows = tuple((f"policy {i}", str(i)) for i in range(10_000))
    page = Display("many", ("policy", "value"), rows, ("a note",) * 500).html
    assert "9900 more" in page
    assert len(page) < 40_000


def test_what_no_frame_can_hold_becomes_text():
    table = frame_of({"label": [1, "a", "\ud800"], "empty": [None, None, None]})
    assert table["label"].to_pylist() == ["1", "a", "\\ud800"]
    assert table.schema.field("empty").type == pa.float64()
    with pytest.raises(piwo.UsageError, match="expected 'pandas'"):
        frame_of({}, "excel")
