"""The page in words and figures: what the template only has to place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from piwo.certificates.certificate import Certificate
from piwo.decision import Decision
from piwo.evaluation import Evaluation
from piwo.health import Health
from piwo.report.charts import gamma_chart, over_time, pairs, percent, weight_bars
from piwo.report.forest import Forest, forest_of, segments_forest
from piwo.report.lights import Light, calibration_of, lights_of
from piwo.report.summary import Summary, gamma_notes, gamma_rows
from piwo.visible import confidence, number

__all__ = ["view_of"]

_ACTIONS = 50
"""Actions of the table."""
_POLICIES = 200
"""Policies of the table of all numbers."""
_VERDICTS = {
    "switch": ("good", "Switch"),
    "keep": ("care", "Keep what runs today"),
    "unfit": ("bad", "Cannot be told"),
}
_ANSWERS = {"harmless": "good", "harmful": "bad", "open": "care"}
_TABLE = (
    "policy",
    "value",
    "lower",
    "upper",
    "improvement, at least",
    "effective rows",
    "mean weight",
    "largest weight",
    "unsupported",
)


def view_of(summary: Summary, explorer_left_out: int) -> dict[str, Any]:
    """Return what the template places, by name.

    Args:
        summary: the content.
        explorer_left_out: policies that the explorer leaves out.
    """
    decision = summary.decision
    first = summary.evaluations[0]
    chosen = next(one for one in summary.evaluations if one.name == decision.policy)
    kind, verdict = _VERDICTS[decision.verdict]
    figure = forest_of(summary.evaluations, decision.units, decision.policy)
    made: dict[str, Any] = {
        "title": f"{verdict}: {summary.source}",
        "kind": kind,
        "verdict": verdict,
        "why": _why(decision, figure),
        "asked": _asked(summary),
        "today": _today(first, decision),
        "forest": figure,
        "unproved": any(one.no_interval is not None for one in summary.evaluations),
        "claim": claim_of(summary),
        "lists": summary.notes,
        "table_head": _TABLE,
        "table": [_table_row(one) for one in summary.evaluations[:_POLICIES]],
        "table_caption": _table_caption(summary),
        "certificates": [_certificate(*one) for one in summary.certificates.items()],
        "provenance": _provenance(summary),
        "explorer_note": _explorer_note(explorer_left_out, decision, first),
    }
    made |= _change(summary, chosen)
    made |= _health(summary.health, decision.policy)
    path = gamma_rows(summary)
    made["gamma"] = gamma_chart(path, chosen.logging_value, decision.units, cost=first.cost)
    made["path"] = [_path_row(row) for row in path]
    made["path_notes"] = gamma_notes(path)
    details = summary.details
    made["trends"] = over_time(
        details.periods,
        details.period or "",
        decision.units,
        decision.policy,
        cost=first.cost,
    )
    made["periods"] = _periods(summary)
    return made


def _path_row(row: dict[str, Any]) -> list[str]:
    return [number(row[name]) for name in ("gamma", "value", "lower", "upper")]


def _why(decision: Decision, figure: Forest) -> str:
    """Return why, besides the bound that the sentence states."""
    if decision.verdict != "switch":
        return ""
    row = next(one for one in figure.rows if one.name == decision.policy)
    text = f"Its gain is {row.words}, {decision.units.axis}"
    if decision.simultaneous > 1:
        text += f". The bounds of all {decision.simultaneous} policies hold together"
    return f"{text}."


def _today(first: Evaluation, decision: Decision) -> str | None:
    value = first.logging_value
    if first.baseline is not None:
        value = first.baseline_value
    if value is None:
        return None
    units = decision.units
    text = f"{value * units.per:,.4g} {units.axis}"
    if first.cost:
        text = f"{units.gain(-value, f'{-value * units.per:,.4g}')} {units.each}"
    if first.baseline is not None:
        return f"{text}, an estimate"
    return text


def _asked(summary: Summary) -> list[Light]:
    """Return whether the policies meet what was asked of them."""
    lights = []
    for one in summary.evaluations:
        if summary.at_least is not None:
            asked = f"{one.name}: value at least {number(summary.at_least)}:"
            if one.reaches(summary.at_least):
                lights.append(Light("good", "certified", asked, None))
            else:
                lights.append(Light("care", "not certified", asked, None))
        for guard in one.guardrails:
            text = f"{one.name}: {guard.guardrail} ({guard.ends}):"
            lights.append(Light(_ANSWERS[guard.answer], guard.words, text, None))
    return lights


def claim_of(summary: Summary) -> str:
    """Return what is claimed of the intervals, in one sentence."""
    given = [one for one in summary.evaluations if one.guarantee != "none"]
    if not given:
        return "No interval is given, for the reasons in the notes."
    first = given[0]
    if first.guarantee != "finite-sample":
        return (
            f"The {first.interval} intervals carry no guarantee at this number of rows "
            f"({first.guarantee})."
        )
    count = first.simultaneous
    # Left and right ends are two statements, each of probability 1 - delta.
    which = f"The {len(given)} proved gains shown, of {count}, hold together"
    if count == 1:
        which = "The proved gain holds"
    elif len(given) == count:
        which = f"All {count} proved gains hold together"
    assumed = ""
    if summary.assumes is not None:
        assumed = f", if {summary.assumes}"
    right = ""
    if any(one.improvement_upper is not None for one in given):
        both = confidence(min(1.0, 2.0 * first.delta))
        right = (
            " So do all upper ends (at most), with the same probability; all lower and upper ends "
            f"at once, with probability at least {both}."
        )
    return (
        f"{which} with probability at least {confidence(first.delta)}{assumed}, at this "
        f"number of rows (method: {first.interval}).{right}"
    )


def _change(summary: Summary, chosen: Evaluation) -> dict[str, Any]:
    """Return what the policy would change, of all rows and by segment."""
    bars, rest = pairs(summary.details.mix)
    made: dict[str, Any] = {"pairs": bars, "rest": rest, "segments": None}
    made["unsupported"] = _unsupported(chosen)
    if chosen.segments:
        made["by"] = chosen.segments[0].column
        made["segments"] = segments_forest(chosen.segments, summary.decision.units)
        rows = []
        for one in chosen.segments:
            label = "(missing)" if one.label is None else one.label
            notes = "; ".join(one.notes) or "-"
            rows.append((label, f"{one.rows:,}", one.changes, notes))
        made["segment_rows"] = rows
    return made


def _unsupported(chosen: Evaluation) -> str:
    mass = chosen.unsupported_mass
    if mass is None:
        return "How much of this policy the log does not support is unknown."
    if mass == 0.0:
        return "Everything that this policy does was tried in the log."
    if any(note.kind == "out-of-reach" for note in chosen.notes):
        return (
            f"{percent(100.0 * mass)} of what this policy does, at most, may never be tried by "
            "today's system; the log does not say."
        )
    return (
        f"{percent(100.0 * mass)} of what this policy does was never tried in the log: what it "
        "would earn there is unknown, and bounds assume the worst."
    )


def _health(health: Health | None, name: str) -> dict[str, Any]:
    if health is None:
        return {"lights": (), "actions": ()}
    heaviest = []
    alike = health.ess is not None and health.ess >= 0.999 * health.count
    for row in health.heaviest:
        numbers = (row.propensity, row.weight, row.share)
        heaviest.append((f"{row.row}", str(row.action), *map(number, numbers)))
    actions = []
    for one in health.by_action[:_ACTIONS]:
        z = "-" if one.z is None else f"{one.z:.1f}"
        means = (one.frequency, one.mean_propensity, one.mean_reward, one.mean_inverse)
        actions.append((str(one.action), f"{one.count:,}", *map(number, means), z))
    caption = "The mean of 1/propensity is expected to be 1"
    if health.actions > len(actions):
        caption += f"; {len(actions)} of {health.actions:,} actions"
    return {
        "lights": lights_of(health, _policy_of(health, name)),
        "weights_title": f"Weights of {_policy_of(health, name)}",
        "calibration": calibration_of(health),
        "weights": weight_bars(health),
        "heaviest": () if alike else heaviest,
        "actions": actions,
        "actions_caption": caption,
    }


def _policy_of(health: Health, name: str) -> str:
    """Return what the page calls the policy of a check, which may be of the uniform policy."""
    if health.policy == "uniform":
        return "the uniform policy"
    return name


def _periods(summary: Summary) -> list[tuple[str, ...]]:
    rows = []
    for one in summary.details.periods:
        shares = ", ".join(f"{name} {percent(100.0 * x)}" for name, x in one.shares.items())
        means = map(number, (one.reward, one.mean_weight))
        rows.append((one.label, f"{one.rows:,}", *means, shares))
    return rows


def _table_row(one: Evaluation) -> tuple[str, ...]:
    numbers = (
        one.value,
        one.lower,
        one.upper,
        one.improvement_lower,
        one.ess,
        one.mean_weight,
        one.max_weight,
        one.unsupported_mass,
    )
    return (one.name, *map(number, numbers))


def _table_caption(summary: Summary) -> str:
    first = summary.evaluations[0]
    text = f"Estimator {first.estimator}"
    if first.gamma is not None:
        text += f", gamma {number(first.gamma)}"
    unit = "negative costs" if first.cost else "rewards"
    earned = f"earned {number(first.logging_value)}"
    if first.cost and first.logging_value is not None:
        earned = f"cost {number(-first.logging_value)}"
    text += f"; {unit} per decision; the logging policy {earned}"
    if first.baseline is not None:
        text += f'; "improvement" is over {first.over}, {number(first.baseline_value)} estimated'
    if len(summary.evaluations) > _POLICIES:
        text += f"; the first {_POLICIES} of {len(summary.evaluations)} policies, --json has all"
    return text


def _certificate(
    name: str, made: Certificate
) -> tuple[str, str, list[tuple[str, str]], Sequence[str]]:
    """Return the name, the answer, the facts and the notes of a certificate."""
    over = number(made.logging_value if made.baseline is None else made.baseline_value)

    def bound(value: float | None) -> str:
        return "no bound" if value is None else f"at least {number(value)}"

    rows = [
        ("kind", f"{made.kind}, {made.bound} bound, delta {number(made.delta)}"),
        ("value", f"{number(made.value)} estimated, {bound(made.value_lower)}"),
        ("improvement", f"{bound(made.improvement_lower)} over {over}"),
    ]
    if made.at_least is not None:
        reached = "reached" if made.reaches else "not reached"
        rows.append(("required", f"value at least {number(made.at_least)}: {reached}"))
    rows += [("guardrail", str(guard)) for guard in made.guardrails]
    rows += [("segment", str(one)) for one in made.segments]
    method = f"oracle {made.oracle}, {made.paid_for}"
    if made.score is not None:
        score = f"score {made.score}"
        if made.parameter is not None:
            score += f" at {number(made.parameter)}"
        method = f"{score}, {method}"
    based_on = f"{made.rows:,} rows, effective sample {number(made.ess)}; learned from "
    based_on += f"{made.training_rows:,} others"
    rows += [("based on", based_on), ("method", method)]
    rows.append(("rows' digest", str(made.log_digest or "-")))
    return name, _certified(made), rows, made.notes


def _certified(made: Certificate) -> str:
    assumed = ""
    if made.assumes is not None and made.improves:
        assumed = f", if {made.assumes}"
    if made.about is not None:
        how = "certified" if made.improves else "not certified"
        return (
            f"This certificate is about another policy: {made.about}. That policy is {how} better "
            f"than {made.over}{assumed}."
        )
    if made.certified:
        return f"Certified better than {made.over}{assumed}."
    return f"Not certified better than {made.over}."


def _explorer_note(left_out: int, decision: Decision, first: Evaluation) -> str:
    parts = [
        f"The page above uses the {first.interval} bound at δ = {first.delta:g}, which may be "
    ]
    parts.append(
        "narrower. It is for looking: decide at the δ and γ that were fixed before, because the "
        "best of many stops does not hold with probability 1 − δ."
    )
    if first.baseline is not None:
        parts.append(" Gains here are over the logging policy.")
    if left_out:
        parts.append(f" {left_out} policies with the most data to carry are left out here.")
    if decision.simultaneous > 1:
        parts.append(f" δ is shared by all {decision.simultaneous} policies.")
    return "".join(parts)


def _provenance(summary: Summary) -> list[tuple[str, str]]:
    """Return what is needed to make the page again, and what was assumed."""
    logger = {"fixed": "declared fixed", "learning": "learning", None: "not declared"}
    rows = [
        ("log", summary.source),
        ("digest of the rows", summary.digest or "not computed"),
        ("command", summary.command or "made in Python"),
        ("piwo", summary.version),
        ("made", summary.made or "-"),
        ("seed", str(summary.random_state)),
        ("logger", logger.get(summary.logger, str(summary.logger))),
        ("unit", summary.unit or "rows are taken for independent"),
        ("propensities", summary.assumes or "taken as logged"),
    ]
    return rows + [(f"column of {role}", name) for role, name in summary.columns]
