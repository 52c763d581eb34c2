"""A page that evaluates: its numbers, what labels can do to it, and logs of unusual sizes."""

import base64
import hashlib
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import piwo
from piwo.decision import Units
from piwo.report import describe, page
from piwo.report.charts import pairs, percent, weight_bars
from piwo.report.details import GAMMAS, ActionShare
from piwo.report.forest import forest_of

pytest.importorskip("jinja2")


def log_of(n: int = 2000, **columns: object) -> piwo.Log:
    rng = np.random.default_rng(0)
    b = rng.random(n) < 0.4
    return piwo.Log.from_arrays(
        action=np.where(b, "B", "A"),
        reward=(rng.random(n) < np.where(b, 0.4, 0.2)) * 1.0,
        propensity=np.where(b, 0.4, 0.6),
        actions=["A", "B"],
        logger="fixed",
        **columns,
    )


def constants(log: piwo.Log) -> dict[str, object]:
    return {f"only {x}": piwo.policies.Constant(x, log.actions) for x in log.actions}


def test_numbers_of_the_page_are_those_of_compare() -> None:
    country = np.where(np.arange(2000) % 4, "DE", "FR")
    log = log_of(segments={"country": country})
    made = describe(log, constants(log), by="country", units=Units("clicks", 100.0, "visits"))
    found = piwo.compare(log, constants(log), by="country")
    assert list(made.evaluations) == list(found.values())
    assert made.decision == piwo.decide(
        found, health=made.health, units=Units("clicks", 100.0, "visits")
    )
    # The page calls the policy by the name that was given, in every sentence.
    checked = piwo.check(log, constants(log)["only B"])
    assert made.health is not None
    assert replace(made.health, policy=checked.policy) == checked
    assert made.health.policy == "only B"
    assert {one.action: one.then for one in made.details.mix} == {"A": 0.0, "B": 1.0}
    text = page(made)
    # escaped, and a percentage is not broken over two lines
    sentence = made.decision.sentence.replace("'", "&#39;").replace(" %", "&nbsp;%")
    assert f'<h1 id="answer">{sentence}</h1>' in text
    (row,) = [x for x in forest_of(made.evaluations, made.decision.units, "only B").rows if x.at][
        :1
    ]
    assert row.words in text
    assert len(text.encode()) < 500_000


def test_sums_of_the_explorer_give_the_bounds_of_the_library() -> None:
    country = np.where(np.arange(2000) % 4, "DE", "FR")
    log = log_of(segments={"country": country})
    made = describe(log, constants(log), by="country").details.explorer
    assert made is not None
    for g in (0, 11, 23):
        ix = piwo.compare(
            log, constants(log), estimator="ix", interval="ix", gamma=GAMMAS[g], by="country"
        )
        for i, one in enumerate(ix.values()):
            sums = made.sums[i, 0]
            assert sums.credit[g] / sums.rows == pytest.approx(one.value, abs=1e-12)
            half = math.log(2 * 2 / 0.05)
            lower = piwo.bounds.ix_lower(sums.credit[g] / sums.rows, sums.rows, GAMMAS[g], half)
            assert max(0.0, lower) == pytest.approx(one.lower, abs=1e-12)
            for k, part in enumerate(one.segments, start=1):
                assert made.sums[i, k].rows == part.rows
    mixture = piwo.compare(log, constants(log), interval="mixture")
    for i, one in enumerate(mixture.values()):
        sums = made.sums[i, 0]
        lower = piwo.bounds.value_lower(sums.bets[0], sums.rows, math.log(2 * 2 / 0.05))
        assert lower == pytest.approx(one.lower, abs=1e-12)


def test_over_time(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    day = np.repeat(np.datetime64("2026-01-01") + np.arange(10), 60)
    action = rng.integers(0, 2, 600)
    frame = pl.DataFrame(
        {
            "action": action,
            "reward": (np.arange(600) >= 300) * 1.0,
            "propensity": np.full(600, 0.5),
            "day": day,
        }
    )
    log = piwo.read(frame, time="day")
    made = describe(log, {"one": piwo.policies.Constant(1, log.actions)})
    rows = made.details.periods
    assert [one.rows for one in rows] == [60] * 10
    assert [one.reward for one in rows] == [0.0] * 5 + [1.0] * 5
    assert rows[0].label == "2026-01-01"
    assert rows[3].mean_weight == pytest.approx(2.0 * action[180:240].mean())
    assert "Logged reward by day" in page(made)


HOSTILE = "</script><img src=x onerror=alert(1)>&\u202e\x1b[2J"


def test_hostile_labels_are_inert() -> None:
    log = piwo.Log.from_arrays(
        action=[HOSTILE, "b"] * 100,
        reward=[1, 0] * 100,
        propensity=[0.5] * 200,
        segments={"where": [HOSTILE, "x"] * 100},
    )
    made = describe(
        log,
        {HOSTILE: piwo.policies.Constant(HOSTILE, log.actions)},
        by="where",
        units=Units(HOSTILE, 10.0, HOSTILE),
    )
    text = page(made)
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    # the page's own two scripts, and no other
    assert len(re.findall("<script", text)) == len(re.findall("</script", text)) == 2


@pytest.mark.parametrize(
    ("rows", "reward"), [(1, 1.0), (1, 0.0), (50, 0.0)], ids=["one row", "one zero", "no reward"]
)
def test_small_logs_stay_readable(rows: int, reward: float) -> None:
    log = piwo.Log.from_arrays(
        action=(["a", "b"] * rows)[:rows],
        reward=[reward] * rows,
        propensity=[0.5] * rows,
        actions=["a", "b"],
    )
    text = page(describe(log, constants(log) | {"logging": piwo.policies.Logging()}))
    assert "Keep today&#39;s system" in text
    assert not re.search(r"\bnan\b|\binf\b", text.split("<main>")[1].split("<script")[0])


def test_many_actions_and_policies_stay_small() -> None:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 10_000, 3000)
    log = piwo.Log.from_arrays(
        action=action,
        reward=(rng.random(3000) < 0.1) * 1.0,
        propensity=np.full(3000, 1e-4),
        actions=range(10_000),
    )
    few = {f"policy {i}": piwo.policies.Constant(i, log.actions) for i in range(200)}
    made = describe(log, few, interval="mixture")
    text = page(made)
    assert len(text.encode()) < 500_000
    assert "175 more policies" in text
    assert made.to_dict()["mix"][0]["then"] == 1.0


def test_the_content_policy_allows_this_page_alone() -> None:
    text = page(describe(log_of(), constants(log_of())))
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    rules = policy.replace("&#39;", "'").split("; ")
    assert rules[0] == "default-src 'none'"
    for name, tag in (("style-src", "style"), ("script-src", "script")):
        (inside,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in rules
    assert "style=" not in text
    assert not re.search(r"""(href|src)=["']?(http|//)""", text)


def test_the_data_of_the_explorer_are_json() -> None:
    text = page(describe(log_of(), constants(log_of())))
    (inside,) = re.findall(r'id="explorer-data">(.*?)</script>', text)
    data = json.loads(inside)
    assert [one["name"] for one in data["policies"]] == ["only B", "only A"]
    numbers = np.frombuffer(base64.b64decode(data["policies"][0]["sums"][0]["sums"]), "<f8")
    assert len(numbers) == 3 * len(data["bets"]) + 2 * len(data["gammas"])


def test_rewards_without_an_upper_end_have_no_explorer() -> None:
    log = log_of(reward_range=(0.0, math.inf))
    text = page(describe(log, constants(log)))
    assert "<script" not in text
    assert "Cannot be told" in text


def test_the_axis_is_where_the_estimates_lie() -> None:
    log = log_of()
    found = list(piwo.compare(log, constants(log)).values())
    far = replace(found[0], lower=-0.9, upper=50.0, improvement_lower=-50.0, improvement_upper=50.0)
    rows = forest_of([found[1], far], Units(), "only B").rows
    # far ends are cut, with an arrow, and do not squeeze the others
    assert (rows[1].cut_low, rows[1].cut_high) == (True, True)
    assert rows[0].high - rows[0].low > 10.0


def test_shares_and_weights_in_words() -> None:
    assert [percent(x) for x in (0.0, 0.04, 9.96, 99.7, 100.0)] == [
        "0 %",
        "0.04 %",
        "10 %",
        "99.7 %",
        "100 %",
    ]
    health = piwo.check(log_of())
    assert sum(int(bar.words.split()[0].replace(",", "")) for bar in weight_bars(health)) == 2000


def test_an_array_is_called_by_the_name_that_it_was_given() -> None:
    log = log_of(200)
    few = np.tile([0.05, 0.95], (200, 1))
    made = describe(log, {"mostly B": few})
    assert made.health is not None
    (text,) = [one.text for one in made.health.findings if one.kind == "effective-sample"]
    assert "for the mostly B policy" in text
    assert "policy policy" not in page(made)


def test_bars_of_small_shares_end_where_the_shares_end() -> None:
    mix = [ActionShare(str(i), 0.002, 0.04) for i in range(3)]
    mix += [ActionShare("other", 0.9, 0.8), ActionShare("never", 0.0, 0.0)]
    bars, _ = pairs(mix[:3])
    assert {(bar.today, bar.then) for bar in bars} == {(5.0, 100.0)}
    # one axis for all pairs, and no bar without a share
    bars, _ = pairs(mix)
    assert [(bar.today, bar.then) for bar in bars[2:]] == [(0.222, 4.444), (100.0, 88.889), (0, 0)]
    assert pairs(mix[4:])[0][0].then == 0.0
