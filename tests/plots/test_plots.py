"""Figures: what is drawn are the numbers of the results, whatever the data, without a network."""

import re
import sys
import xml.etree.ElementTree as ET

import numpy as np
import polars as pl
import pytest

pytest.importorskip("altair", reason="figures need the extra plots")
pytest.importorskip("vl_convert", reason="figures need the extra plots")

import piwo
from piwo import plots
from piwo.plots.style import BLUE, GREY, ORANGE, drawable, framing

HOSTILE = "<script>alert('x')</script>\x1b[31m\n\"&\u202e" + "x" * 60


def rows_of(chart):
    """All rows of data of a chart, in order."""

    def found(part):
        if isinstance(part, list):
            return [row for one in part for row in found(one)]
        if not isinstance(part, dict):
            return []
        rows = []
        for name, value in part.items():
            if name == "datasets":
                rows += [row for table in value.values() for row in table]
            elif name == "data":
                rows += value.get("values", [])
            else:
                rows += found(value)
        return rows

    return found(chart.to_dict())


def having(chart, name):
    """The rows that have a field, each once."""
    rows = []
    for row in rows_of(chart):
        if name in row and row not in rows:
            rows.append(row)
    return rows


def log_of(labels=("a", "b", "c"), rows=3000, seed=1, **columns):
    generator = np.random.default_rng(seed)
    code = generator.choice(3, rows, p=[0.6, 0.3, 0.1])
    chance = np.array([0.2, 0.5, 0.4])[code]
    return piwo.Log.from_arrays(
        action=np.array(labels)[code],
        reward=(generator.random(rows) < chance) * 1.0,
        propensity=np.array([0.6, 0.3, 0.1])[code],
        **columns,
    )


@pytest.fixture(scope="module")
def log():
    return log_of()


@pytest.fixture(scope="module")
def policies(log):
    made = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    return {**made, "uniform": piwo.policies.Uniform(log.actions)}


def drawn(chart):
    """The figure as a tree, after it was drawn in both ways."""
    assert plots.png(chart, scale=0.5).startswith(b"\x89PNG")
    text = plots.svg(chart)
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)
    tree = ET.fromstring(text)
    (description,) = tree.findall("{http://www.w3.org/2000/svg}desc")
    assert len(description.text) > 30
    assert tree.get("role") == "img"
    assert not list(tree.iter("{http://www.w3.org/2000/svg}script"))
    return tree


def test_forest_has_the_numbers_of_the_evaluations(log, policies):
    found = piwo.compare(log, policies)
    chart = plots.forest(found, reward="clicks")
    rows = having(chart, "policy")
    assert [row["policy"] for row in rows] == [one.name for one in found.ranked]
    for row in rows:
        one = found[row["policy"]]
        assert (row["value"], row["lower"], row["upper"]) == (one.value, one.lower, one.upper)
        assert (row["verdict"] == "certified better") == (one.improvement_lower > 0)
    assert having(chart, "today") == [{"today": found["a"].logging_value}]
    assert "certified better" in {row["verdict"] for row in rows}
    assert "mean clicks per decision" in "".join(drawn(chart).itertext())
    assert rows_of(plots.forest(found)) == rows_of(plots.forest(list(found.values())))


def test_ends_beyond_the_axis_are_arrows_and_the_data_keep_them():
    generator = np.random.default_rng(0)
    code = generator.choice(2, 5000, p=[0.9, 0.1])
    log = piwo.Log.from_arrays(
        action=np.array(["a", "b"])[code],
        reward=(generator.random(5000) < 0.003) * 1.0,
        propensity=np.array([0.9, 0.1])[code],
    )
    found = piwo.compare(log, {x: piwo.policies.Constant(x, log.actions) for x in "ab"})
    rows = {row["policy"]: row for row in having(plots.forest(found), "policy")}
    assert rows["b"]["upper"] == found["b"].upper
    assert rows["b"]["beyond_upper"]
    assert rows["b"]["drawn_upper"] < found["b"].upper / 2


def test_weights_and_calibration_have_the_numbers_of_the_health(log, policies):
    health = piwo.check(log, policies["c"])
    known = {one.least: one for one in health.histogram}
    for row in having(plots.weights(health), "share_of_rows"):
        if row["least"] in known:
            one = known[row["least"]]
            assert (row["rows"], row["share"]) == (one.rows, one.share)
        else:
            assert row["rows"] == 0
    assert {row["least"] for row in having(plots.weights(health), "share_of_rows")} >= set(known)
    by_action = {one.action: one for one in health.by_action}
    rows = having(plots.calibration(health), "action")
    assert {row["action"] for row in rows} == set(by_action)
    for row in rows:
        one = by_action[row["action"]]
        assert row["mean_inverse"] == one.mean_inverse
        assert row["high"] - row["low"] == pytest.approx(4 * one.standard_error)
    drawn(plots.weights(health))
    drawn(plots.calibration(health))


def test_wrong_propensities_are_marked_by_shape_and_color():
    generator = np.random.default_rng(0)
    code = generator.choice(2, 4000)
    log = piwo.Log.from_arrays(
        action=np.array(["a", "b"])[code],
        reward=code.astype(float),
        propensity=np.where(code == 0, 0.5, 0.4),
    )
    rows = {row["action"]: row for row in having(plots.calibration(piwo.check(log)), "action")}
    assert "too small" in rows["b"]["evidence"]
    assert "no evidence" in rows["a"]["evidence"]


def test_estimated_propensities_are_drawn_against_what_was_done(log):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(2000, 2))
    action = (x[:, 0] + generator.normal(size=2000) > 0).astype(int)
    frame = {"x0": x[:, 0], "x1": x[:, 1], "action": action, "reward": action * 1.0}
    estimated = piwo.estimate_propensities(frame, context=["x0", "x1"])
    health = piwo.check(estimated)
    rows = having(plots.calibration(health), "pairs")
    assert [row["taken"] for row in rows] == [one.observed for one in health.calibration]
    drawn(plots.calibration(health))


@pytest.mark.parametrize("interval", ["auto", "ix"])
def test_gamma_path_has_the_numbers_of_the_path(log, policies, interval):
    path = piwo.evaluate(log, policies["b"], gamma=[0.01, 0.1, 0.5], interval=interval)
    rows = having(plots.gamma_path(path), "gamma")
    for row, one in zip(rows, path.evaluations, strict=True):
        numbers = (one.gamma, one.value, one.lower, one.upper)
        assert (row["gamma"], row["value"], row["lower"], row["upper"]) == numbers
    assert path.sureness in "".join(drawn(plots.gamma_path(path)).itertext())


def test_coverage_and_regret_have_the_numbers_of_their_records(log, policies):
    found = []
    for gamma in (0.1, 0.02):
        found += [piwo.evaluation.coverage(log, policies[x], gamma=gamma) for x in ("a", "uniform")]
    rows = having(plots.coverage(found), "gamma")
    assert len(rows) == 4
    by_free = {one.reward_free: one for one in found}
    for row in rows:
        one = by_free[row["reward_free"]]
        numbers = (one.gamma, one.coverage, one.coverage_lower, one.coverage_upper)
        assert (row["gamma"], row["coverage"], row["lower"], row["upper"]) == numbers
    others = {name: policies[name] for name in ("b", "uniform")}
    certificate = piwo.regret_certificate(log, policies["a"], others)
    rows = having(plots.regret(certificate), "against")
    assert {row["against"]: row["regret_upper"] for row in rows} == dict(certificate.against)
    drawn(plots.coverage(found))
    drawn(plots.regret(certificate))


def test_monitor_has_the_numbers_of_the_looks(policies):
    monitor, looks = piwo.Monitor(policies["b"], horizon=20_000), []
    for day in range(4):
        monitor = monitor.update(log_of(rows=200 * 4**day, seed=day))
        looks.append(monitor.look())
    chart = plots.monitor(reversed(looks))
    for row, one in zip(having(chart, "logging_value"), looks, strict=True):
        assert (row["rows"], row["value"]) == (one.rows, one.value)
        assert (row["lower"], row["upper"]) == (one.lower, one.upper)
        assert row["better"] == (one.improvement_lower > 0)
    first = next(one.rows for one in looks if one.improvement_lower > 0)
    (mark,) = having(chart, "text")
    assert mark["rows"] == first
    drawn(chart)


def test_paper_has_the_numbers_of_the_table(log, policies):
    names, frames = ("b", "uniform"), []
    for name in names:
        path = piwo.evaluate(log, policies[name], gamma=[0.01, 0.1, 0.5], interval="ix", name=name)
        frames.append(path.to_frame("polars"))
    table = pl.concat(frames)
    chart = plots.paper(table, title="Two policies")
    rows = having(chart, "value")
    for row, one in zip(rows, table.iter_rows(named=True), strict=True):
        numbers = (one["name"], one["gamma"], one["value"], one["lower"], one["upper"])
        assert tuple(row[x] for x in ("name", "x", "value", "lower", "upper")) == numbers
    text = "".join(drawn(chart).itertext())
    assert "Two policies" in text
    assert all(name in text for name in names)
    # the same from columns, and lines without bands, with what is missing
    columns = {name: table[name].to_list() for name in ("name", "gamma", "value", "lower", "upper")}
    assert rows_of(plots.paper(columns, title="Two policies")) == rows_of(chart)
    bare = {"name": ["a", HOSTILE], "n": np.array([10, 20]), "value": [0.5, None]}
    chart = plots.paper(bare, x="n")
    assert [row["value"] for row in having(chart, "value")] == [0.5, None]
    drawn(chart)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ([1, 2], "expected a data frame, or column name -> values"),
        ({"name": ["a"], "value": [1]}, "lacks the columns 'gamma'; it has 'name', 'value'"),
        ({"name": [], "gamma": [], "value": []}, "has no rows"),
        ({"name": ["a"], "gamma": [1, 2], "value": [1]}, "has 2 numbers in 'gamma' and 1 names"),
        ({"name": ["a"], "gamma": [None], "value": [1]}, "expected finite numbers"),
        ({"name": ["a"], "gamma": ["x"], "value": [1]}, "'x' in the column 'gamma', expected num"),
        ({"name": "a", "gamma": [1], "value": [1]}, "its column 'name', expected a list"),
        ({x: list("abcdefg") for x in ("name",)} | {"gamma": [1] * 7, "value": [1] * 7}, "most 6"),
    ],
)
def test_a_table_that_is_no_paper_is_one_clear_line(table, says):
    with pytest.raises(piwo.UsageError, match=re.escape(says)) as caught:
        plots.paper(table)
    assert "\n" not in str(caught.value)


def test_action_mix_has_the_shares_of_the_segments(policies):
    generator = np.random.default_rng(2)
    place = generator.choice(["DE", "FR"], 3000)
    log = log_of(segments={"country": place})
    found = piwo.evaluate(log, piwo.policies.Constant("b", log.actions), by="country")
    panels = plots.action_mix(found).to_dict()["concat"]
    rows = having(plots.action_mix(found), "when")
    shares = {(row["action"], row["when"], row["share"]) for row in rows}
    for one in found.segments:
        for label, share in one.today.items():
            assert (label, "today", share) in shares
            assert (label, "under the policy", one.then[label]) in shares
    assert len(panels) == 3
    drawn(plots.action_mix(found))
    with pytest.raises(piwo.UsageError, match="no shares of actions"):
        plots.action_mix(piwo.evaluate(log, piwo.policies.Constant("b", log.actions)))


def test_hostile_names_are_drawn_as_text_and_stay_apart():
    log = log_of((HOSTILE, HOSTILE + "2", "b"), segments={"s": [HOSTILE] * 3000})
    policies = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    found = piwo.compare(log, policies, by="s")
    first = found[HOSTILE]
    certificate = piwo.regret_certificate(log, policies["b"], policies)
    path = piwo.evaluate(log, policies[HOSTILE], gamma=[0.1], name=HOSTILE)
    health = piwo.check(log, policies[HOSTILE])
    assert len({row["policy"] for row in having(plots.forest(found), "policy")}) == 3
    for chart in (
        plots.forest(found),
        plots.weights(health),
        plots.calibration(health),
        plots.gamma_path(path),
        plots.regret(certificate),
        plots.action_mix(first),
    ):
        drawn(chart)


def test_the_figure_of_a_result_is_the_one_of_its_kind(log, policies):
    found = piwo.compare(log, policies)
    path = piwo.evaluate(log, policies["b"], gamma=[0.01, 0.1])
    by = piwo.evaluate(log_of(segments={"s": ["x", "y", "y"] * 1000}), policies["b"], by="s")
    coverage = piwo.evaluation.coverage(log, policies["a"], gamma=0.1)
    certificate = piwo.regret_certificate(log, policies["a"], policies)
    health = piwo.check(log, policies["c"])
    monitor = piwo.Monitor(policies["b"], horizon=20_000).update(log)
    look = monitor.look()
    for result, chart in (
        (found, plots.forest(found, reward="clicks")),
        (dict(found), plots.forest(found, reward="clicks")),
        (list(found.values()), plots.forest(found, reward="clicks")),
        (found["a"], plots.forest(found["a"], reward="clicks")),
        (piwo.select(log, policies), plots.forest(found, reward="clicks")),
        (path, plots.gamma_path(path, reward="clicks")),
        (certificate, plots.regret(certificate, reward="clicks")),
        (monitor, plots.monitor([look], reward="clicks")),
        (look, plots.monitor([look], reward="clicks")),
        ([look], plots.monitor([look], reward="clicks")),
    ):
        drew = plots.figure(result, reward="clicks")
        assert drew.to_dict()["title"]["text"] == chart.to_dict()["title"]["text"]
        assert rows_of(drew) == rows_of(chart)
        assert "mean clicks" in str(drew.to_dict()) or "in clicks" in str(drew.to_dict())
        # what is no text is refused, by the figure and by the function that draws it
        with pytest.raises(
            piwo.UsageError, match=r"^reward is 3, expected a str, such as \"clicks\"$"
        ):
            plots.figure(result, reward=3)
    for result, chart in (
        (by, plots.action_mix(by)),
        (coverage, plots.coverage(coverage)),
        ([coverage] * 2, plots.coverage([coverage] * 2)),
        (health, plots.weights(health)),
        (piwo.check(log), plots.calibration(piwo.check(log))),
    ):
        drew = plots.figure(result)
        assert drew.to_dict()["title"]["text"] == chart.to_dict()["title"]["text"]
        assert rows_of(drew) == rows_of(chart)
        with pytest.raises(piwo.UsageError, match="this figure has no axis of rewards"):
            plots.figure(result, reward="clicks")


def test_the_figure_of_a_watch_has_the_looks_of_every_policy():
    policies = {x: piwo.policies.Constant(x, ["a", "b", "c"]) for x in "ab"}
    watch = piwo.Watch.start(policies)
    with pytest.raises(piwo.UsageError, match="has seen no rows"):
        plots.figure(watch)
    for day in range(3):
        watch = watch.update(log_of(rows=900, seed=day), date=f"2026-11-0{day + 1}")
    chart = plots.figure(watch, reward="clicks")
    assert [one["title"]["text"] for one in chart.to_dict()["vconcat"]] == ["a", "b"]
    looks = [look.policies[i] for i in range(2) for look in watch.looks]
    rows = [row for row in having(chart, "logging_value") if "value" in row]
    assert len(rows) == len(looks) == 6
    for one in looks:
        numbers = (one.rows, one.value, one.lower, one.upper)
        assert numbers in [(row["rows"], row["value"], row["lower"], row["upper"]) for row in rows]
    assert watch.headline() in chart.to_dict()["description"]
    drawn(chart)
    # The looks alone, as a state file has them.
    for given in (watch.looks, list(watch.looks)):
        from_looks = plots.figure(given, reward="clicks")
        assert rows_of(from_looks) == rows_of(chart)
        assert from_looks.to_dict()["title"] == chart.to_dict()["title"]
    assert len(having(plots.figure(watch.looks[-1]), "logging_value")) == 2


def test_bands_and_bars_beyond_the_axis_are_arrows_at_its_ends():
    policies = {x: piwo.policies.Constant(x, ["a", "b", "c"]) for x in "ab"}
    watch = piwo.Watch.start(policies)
    for day in range(8):
        made = log_of(rows=10 if day == 0 else 4000, seed=day)
        watch = watch.update(made, date=f"2026-11-0{day + 1}")
    chart = plots.figure(watch)
    rows = [row for row in having(chart, "logging_value") if row.get("beyond_upper")]
    assert rows
    for row in rows:
        assert row["drawn_upper"] < row["upper"]
    assert "arrows: ends of the band beyond the figure" in chart.to_dict()["title"]["subtitle"]
    shapes = str(chart.to_dict())
    assert "triangle-up" in shapes
    assert "triangle-down" in shapes
    drawn(chart)
    # The rare action is as often there as expected, but surely so only within .64.
    code = np.repeat([0, 1, 2], [705, 285, 10])
    share = np.array([0.7, 0.29, 0.01])
    log = piwo.Log.from_arrays(action=code, reward=code * 0.1, propensity=share[code])
    chart = plots.figure(piwo.check(log))
    rows = {row["action"]: row for row in having(chart, "action")}
    assert [rows[x]["beyond_upper"] for x in ("0", "1", "2")] == [False, True, True]
    assert rows["2"]["drawn_upper"] < rows["2"]["high"]
    assert rows["2"]["drawn_lower"] > rows["2"]["low"]
    assert "arrows: bars that end beyond the figure" in chart.to_dict()["title"]["subtitle"]
    drawn(chart)


@pytest.mark.parametrize("result", [None, 1, "x", [], [1], {}, object(), [1, "x"]])
def test_what_has_no_figure_is_one_line(result):
    with pytest.raises(piwo.UsageError, match="which has no figure; expected what") as caught:
        plots.figure(result)
    assert "\n" not in str(caught.value)


def test_one_row_two_hundred_policies_and_ten_thousand_actions(log):
    alone = piwo.Log.from_arrays(action=["a"], reward=[0], propensity=[0.5], actions=["a", "b"])
    policy = piwo.policies.Constant("a", alone.actions)
    health = piwo.check(alone)
    look = piwo.Monitor(policy, horizon="universal").update(alone).look()
    coverage = piwo.evaluation.coverage(alone, policy, gamma=0.1)
    for chart in (
        plots.forest(piwo.evaluate(alone, policy)),
        plots.weights(health),
        plots.calibration(health),
        plots.gamma_path(piwo.evaluate(alone, policy, gamma=[0.1])),
        plots.coverage(coverage),
        plots.monitor([look]),
    ):
        drawn(chart)
    one = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    rows = having(plots.forest([one] * 205), "policy")
    assert len(rows) == 200
    assert "of 205 policies" in plots.forest([one] * 205).to_dict()["title"]["subtitle"][0]
    many = np.arange(10_000)
    large = piwo.Log.from_arrays(action=many, reward=many % 2, propensity=np.full(10_000, 1e-4))
    chart = plots.calibration(piwo.check(large))
    assert len(having(chart, "action")) == 40
    drawn(chart)


def test_no_evaluations_is_one_line():
    for function, given in ((plots.forest, {}), (plots.monitor, []), (plots.coverage, [])):
        with pytest.raises(piwo.UsageError, match="none") as caught:
            function(given)
        assert "\n" not in str(caught.value)


def test_save_writes_what_the_ending_says(tmp_path, log):
    chart = plots.forest(piwo.evaluate(log, piwo.policies.Uniform(log.actions)))
    for name, start in (("a.svg", b"<svg"), ("a.png", b"\x89PNG"), ("a.json", b"{")):
        plots.save(chart, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert plots.svg(chart) == plots.svg(chart)
    with pytest.raises(piwo.UsageError, match=r"expected a file \.svg"):
        plots.save(chart, tmp_path / "a.pdf")


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_a_missing_extra_is_one_clear_line(monkeypatch, missing, log):
    found = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(piwo.UsageError, match=r"pip install 'piwo\[plots\]'") as caught:
        plots.svg(plots.figure(found))
    assert "\n" not in str(caught.value)


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [x / 12.92 if x <= 0.03928 else ((x + 0.055) / 1.055) ** 2.4 for x in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("color", [BLUE, GREY, ORANGE])
def test_colors_are_seen_on_white(color):
    assert 1.05 / (luminance(color) + 0.05) >= 3.0


def test_names_that_are_drawn_are_all_different():
    names = drawable(["a", "a", "a (2)", "a", "x" * 50, "x" * 51])
    assert len(set(names)) == 6
    assert all(len(name) < 60 for name in names)


def test_an_axis_covers_the_estimates():
    low, high = framing([0.2, 0.4], [0.0, None, 5.0])
    assert low <= 0.2
    assert 0.4 <= high < 5.0
