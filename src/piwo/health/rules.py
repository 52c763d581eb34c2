"""The rules that judge a log: from measurements to findings. `check` gives their reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from piwo.evaluation.low_weights import far_below, low_weight_text
from piwo.evaluation.notes import copies_note, logger_note
from piwo.health.record import (
    Health,
    HealthFinding,
    Severity,
    label_text,
    policy_text,
    position_text,
)
from piwo.health.rows import ActionRow, ContextGap, HeavyRow
from piwo.intervals.weight_sums import FAR
from piwo.logs.unit_columns import UnitColumn
from piwo.messages import argument, rendered
from piwo.visible import number, p_value, percent

__all__ = ["findings_of"]

FEWEST = 10.0
"""An effective sample below this is unfit."""
FEW = 100.0
"""An effective sample below this needs care; so does one below a tenth of the rows."""
_NAMED = 5
"""Rows, actions or columns that a finding names."""
_BY_CHANCE = 0.01
"""A smaller part of a policy, in actions that no row took, says nothing of a large catalog."""
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ORDER: tuple[Severity, ...] = ("unfit", "care", "note")


def findings_of(health: Health) -> tuple[HealthFinding, ...]:
    """Return the findings, most severe first, then in the order of the rules below."""
    rules = (
        _propensity_errors,
        _effective_sample,
        _propensities,
        _copies,
        _logger,
        _units,
        _exploration,
        _coverage,
        _missing,
        _rewards,
        _missing_context,
        _infinite_context,
        _rare_by_chance,
        _set_sizes,
        _item_ages,
        _position_bias,
        _position_weights,
        _many_positions,
        _unlisted,
        _thinned,
        _read,
    )
    found: list[HealthFinding] = []
    for rule in rules:
        found += rule(health)
    # Sorting is stable, so that findings of one severity stay in the order of the rules.
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.severity)))


# --- the weights of the policy


def _propensity_errors(health: Health) -> Iterator[HealthFinding]:
    """Propensities were estimated, or may be too small."""
    for text in health.doubts:
        yield _finding("propensity-error", "care", text)


def _effective_sample(health: Health) -> Iterator[HealthFinding]:
    """Few rows carry the value of the policy."""
    kind = "effective-sample"
    if health.max_weight == 0:
        text = (
            f"the {policy_text(health.policy)} never takes a logged action: all "
            f"{health.rows:,} weights are 0; value it on a log whose logger took its "
            "actions"
        )
        yield _finding("no-overlap", "unfit", text)
        return
    # A weight beyond float64 outweighs all others together.
    ess, size = 1.0, f"of {health.count:,}; a weight is beyond float64"
    if health.ess is not None:
        ess, size = health.ess, f"ESS {_size_text(health.ess)} of {health.count:,}"
    start = (
        f"an effective sample of {_counted(ess, health.counted)} ({size}) "
        f"for the {policy_text(health.policy)}"
    )
    heavy = health.heaviest[: min(max(1, math.ceil(ess)), _NAMED)]
    named = [_heavy(row) for row in heavy]
    if ess < FEWEST:
        rests_on = "them"
        if len(heavy) == 1:
            rests_on = "it"
        text = (
            f"{start}: {'; '.join(named)}; the value of this policy rests on "
            f"{rests_on}; evaluate policies closer to the logger, or log more exploration"
        )
        yield _finding(kind, "unfit", text, heavy)
    elif ess < FEW or ess < health.count / 10:
        carried, share = "", health.top_share[10]
        if share is not None:
            many = len(health.heaviest)
            carried = f": the heaviest {many:,} rows carry {percent(share)} of the weight"
        first, _, _ = named[0].partition(" (")
        text = f"{start}{carried}, first {first}; expect wide intervals"
        yield _finding(kind, "care", text, health.heaviest)


def _heavy(row: HeavyRow) -> str:
    text = f"row {row.row} ({_size(row)}, action {label_text(row.action)})"
    if row.share is None:
        return text
    return f"{text} carries {percent(row.share)} of the weight"


def _missing(health: Health) -> Iterator[HealthFinding]:
    """Part of the policy is not in the log, beyond the actions never logged."""
    if health.thinned or health.allowed_error or health.max_weight == 0:
        return
    mean, z, mass = health.mean_weight, health.mean_weight_z, health.unsupported_mass
    if not far_below(mean, z, health.count, mass):
        return
    gone = 1.0 - mean
    severity: Severity = "note"
    # A tenth of the policy, besides what never-logged actions explain, changes decisions.
    if gone - (mass or 0.0) >= 0.1:
        severity = _severity_of_share(gone)
    text = low_weight_text(mean, f" of the {policy_text(health.policy)}")
    yield _finding("policy-not-in-log", severity, text)


def _severity_of_share(share: float | None) -> Severity:
    """Return how severe it is that a share of the policy is not in the log."""
    if share is None:
        return "care"
    # No interval can then be shorter than half the reward range.
    if share > 0.5:
        return "unfit"
    if share > 0.0:
        return "care"
    return "note"


# --- the propensities


def _propensities(health: Health) -> Iterator[HealthFinding]:
    """Propensities are too small for how often actions were taken."""
    found = [p for p in (health.propensity_p, health.action_p) if p is not None]
    # Two tests, of the uniform policy and of the actions: Bonferroni.
    p = min(1.0, 2.0 * min(found, default=1.0))
    if p >= health.delta:
        return
    suspects: list[tuple[float, ActionRow]] = []
    for row in health.by_action:
        if row.p is not None and row.p < health.delta:
            suspects.append((row.p, row))
    suspects.sort(key=lambda suspect: (suspect[0], suspect[1].action))
    parts = [_contradiction(row, health.rows) for _, row in suspects[:3]]
    if len(suspects) > 3:
        parts.append(f"and {len(suspects) - 3} more actions")
    if not parts:
        parts = ["the mean weight of the uniform policy is above 1 by more than chance allows"]
    text = (
        f"logged propensities do not match action frequencies ({p_value(p)}): "
        f"{'; '.join(parts)}; every value comes out too high; log the probability with "
        "which the action was really drawn"
    )
    severity: Severity = "care"
    # An honest log meets this at most once in 50 / delta logs.
    if p < health.delta / 50.0:
        severity = "unfit"
    yield _finding("propensities-too-small", severity, text)


def _copies(health: Health) -> Iterator[HealthFinding]:
    """Rows are copies of other rows."""
    if health.copies is not None:
        yield _finding("copies", "care", copies_note(health.copies).template)


def _logger(health: Health) -> Iterator[HealthFinding]:
    """Equal contexts got different propensities, of a logger that is not declared to learn."""
    if health.logger_changed is None:
        return
    severity: Severity = "note"
    if health.logger == "fixed":
        severity = "care"
    yield _finding("logger", severity, logger_note(health.logger, health.logger_changed).template)


def _units(health: Health) -> Iterator[HealthFinding]:
    """Rows of one person or session depend on each other."""
    for column in health.unit_columns:
        severity: Severity = "note"
        if column.dependent and column.person:
            severity = "care"
        yield _finding("units", severity, _unit_text(column))


def _unit_text(column: UnitColumn) -> str:
    name, read_with = label_text(column.column), argument("unit", column.column)
    each = f"{column.rows_each:.3g} rows a value"
    if not column.dependent:
        return (
            f"column {name} has {each}, and their rewards show no dependence; if rows of one value "
            f"come from one user or session, consider reading the log with {read_with}"
        )
    start = f"rewards of rows with one value of {name} are alike ({each}, z = {column.z or 0:.0f})"
    if column.person:
        return (
            f"{start}: intervals that take rows for independent are too narrow; read the log with "
            f"{read_with}"
        )
    return f"{start}; if such rows come from one user or session, read the log with {read_with}"


def _contradiction(row: ActionRow, rows: int) -> str:
    text = (
        f"action {label_text(row.action)} was taken in {row.count:,} of {rows:,} rows "
        f"({row.frequency:.4g}) at a mean propensity of "
        f"{row.mean_propensity or 0.0:.4g}, so the match is "
        f"{_finite(row.mean_inverse)} (mean 1/mu), expected 1"
    )
    if row.z is None:
        return text
    return f"{text} (z = {row.z:.0f})"


def _rare_by_chance(health: Health) -> Iterator[HealthFinding]:
    """Actions were logged less often than propensities say, as can happen if those are small."""
    rare: list[tuple[float, ActionRow]] = []
    for row in health.by_action:
        if row.z is not None and row.z < -FAR and row.count:
            rare.append((row.z, row))
    if not rare or health.thinned or health.allowed_error:
        return
    rare.sort(key=lambda one: one[0])
    named = [f"{label_text(row.action)}: {row.mean_inverse:.3g}" for _, row in rare[:3]]
    if len(rare) > 3:
        named.append("...")
    text = (
        f"{len(rare)} of {health.actions} actions were taken less often than propensities say "
        f"(match, mean 1/mu, expected 1: {', '.join(named)}): rows in which they have a small "
        "propensity did not turn up, or the propensities are too large; lower bounds hold all the "
        "same"
    )
    yield _finding("rare-actions", "note", text)


def _set_sizes(health: Health) -> Iterator[HealthFinding]:
    """Weights are wrong for some numbers of eligible actions."""
    for row in health.by_size:
        if health.thinned or row.z is None or not _far(row.z, health):
            continue
        span = f"{row.least} to {2 * row.least - 1} eligible actions"
        if row.least == 1:
            span = "one eligible action"
        start = (
            f"in rows with {span} the mean weight of the uniform policy is {row.mean_weight:.3g}, "
            f"expected 1 (z = {row.z:.0f})"
        )
        if row.z > 0.0:
            yield _finding(
                "eligible",
                "care",
                f"{start}: propensities seem to be of other candidates than those that are listed; "
                "log both from one place",
            )
        else:
            # Chance does this where actions with small propensities did not turn up.
            yield _finding(
                "eligible",
                "note",
                f"{start}: actions with small propensities did not turn up, or some that are "
                "listed could not be taken",
            )


def _item_ages(health: Health) -> Iterator[HealthFinding]:
    """Weights are wrong for actions of some ages."""
    for row in health.by_age:
        if health.thinned or row.z is None or not _far(row.z, health):
            continue
        start = (
            f"actions first eligible {100 * row.least:g} % of the log ago or more have a mean "
            f"weight of {row.weight:.3g}, expected {row.listed:.3g} (z = {row.z:.0f})"
        )
        if row.z > 0.0:
            text = (
                f"{start}: their propensities seem too small; find out what they were at the time"
            )
            yield _finding("item-age", "care", text)
        else:
            text = f"{start}: those with small propensities did not turn up, or they are too large"
            yield _finding("item-age", "note", text)


def _far(z: float, health: Health) -> bool:
    """Return whether a mean weight is far from 1; below 1 a declared error explains it."""
    return z >= FAR or (z <= -FAR and not health.allowed_error)


def _position_bias(health: Health) -> Iterator[HealthFinding]:
    """Rewards depend on where the action was shown."""
    rows = [x for x in health.by_position if x.reward_z is not None]
    far = max((abs(x.reward_z or 0.0) for x in rows), default=0.0)
    # Policies and models of rewards know a position that is context.
    if far < FAR or health.position_in_context:
        return
    named = [
        f"{number(x.mean_reward)} at {position_text(x.position)}"
        for x in sorted(rows, key=lambda x: -abs(x.reward_z or 0.0))[:_NAMED]
    ]
    text = (
        f"rewards of the same action differ by position (z = {far:.0f}; means of all rows: "
        f"{', '.join(named)}): a reward is that of action and position together, and a policy "
        "that is shown elsewhere earns something else; read rows of one position "
        f"({argument('where')}) if it does not depend on the action, name it as context if it was "
        "known before the decision, or evaluate whole slates (piwo.slates)"
    )
    yield _finding("position-bias", "care", text)


def _many_positions(health: Health) -> Iterator[HealthFinding]:
    """Positions are too many to be compared."""
    if health.positions_left_out is None:
        return
    text = (
        f"column {health.positions_left_out!r} has more than 100 positions that are text, which "
        "are not compared; group them into fewer in a column of their own, or number them"
    )
    yield _finding("many-positions", "note", text)


def _position_weights(health: Health) -> Iterator[HealthFinding]:
    """Weights are wrong at some positions."""
    rows = [x for x in health.by_position if _far(x.weight_z or 0.0, health)]
    if not rows:
        return
    row = max(rows, key=lambda x: x.weight_z or 0.0)
    start = (
        f"at position {position_text(row.position)} the mean weight of the uniform policy is "
        f"{row.mean_weight:.3g}, expected 1 (z = {row.weight_z:.0f})"
    )
    if row.mean_weight > 1.0:
        text = (
            f"{start}: positions depend on the action, or propensities are wrong there; no bound "
            f"holds for rows of one position ({argument('where')}) that the action decided"
        )
        yield _finding("position-of-action", "care", text)
    else:
        text = f"{start}: actions with small propensities did not turn up there"
        yield _finding("position-of-action", "note", text)


# --- the actions


def _exploration(health: Health) -> Iterator[HealthFinding]:
    """The logger had no choice."""
    if health.actions == 1:
        text = (
            "the log has one action only: nothing to compare; pass "
            f"{argument('actions', '[...]')} if others could be taken"
        )
        yield _finding("one-action", "care", text)
    elif health.propensity_min >= 1.0:
        text = (
            f"the logger never explored: all {health.rows:,} propensities are 1; no "
            "other policy can be valued; log the decisions of a policy that draws its "
            "actions"
        )
        yield _finding("no-exploration", "unfit", text)


def _coverage(health: Health) -> Iterator[HealthFinding]:
    """Actions were never logged, or cannot be where the policy takes them."""
    missing = health.actions - health.actions_logged - health.never_eligible
    mass, policy = health.unsupported_mass, policy_text(health.policy)
    severity = _severity_of_share(mass)
    unknown = (
        "what they would have earned is unknown: log them, or keep new policies away from them"
    )
    out_of_reach = (
        f"the {policy} gives probability {mass or 0.0:.4g} to actions that the logger could not "
        f"take there (propensity 0); {unknown}"
    )
    if missing == 0:
        if mass:
            yield _finding("never-logged", severity, out_of_reach)
        return
    text = f"{_never_taken(health, missing)}; "
    if health.every_propensity and mass is not None:
        # The lists say exactly what the logger could not take, logged or not.
        by_chance = (
            f"the logger could take all that the {policy} plays (propensities above 0), so it is "
            "by chance"
        )
        text += out_of_reach if mass else by_chance
    elif health.by_size and mass is not None:
        text += (
            f"at most {mass:.4g} of what the {policy} plays, in such actions or next to one of "
            "propensity 1, may be out of the logger's reach; propensities of all eligible actions "
            f"would say if they are ({argument('propensities')})"
        )
        if mass < _BY_CHANCE:
            severity = "note"
        else:
            text += "; log such actions, or keep new policies away from them"
    elif health.by_size:
        text = text.removesuffix("; ")
    else:
        if mass is not None:
            text += f"the {policy} gives them probability {mass:.4g}; "
        text += unknown
    yield _finding("never-logged", severity, text)


def _never_taken(health: Health, missing: int) -> str:
    """Return how many actions were never taken, with the first few."""
    named = list(map(label_text, health.never_logged[:_NAMED]))
    if health.by_size:
        rows = health.never_logged_eligible[: min(_NAMED, missing)]
        pairs = zip(health.never_logged, rows, strict=False)
        named = [f"{label_text(label)}: {count:,}" for label, count in pairs]
    if missing > _NAMED:
        named.append("...")
    listed = ", ".join(named)
    if health.by_size:
        return (
            f"{missing} of {health.actions} actions were eligible and never taken (eligible in "
            f"rows: {listed})"
        )
    return f"{missing} of {health.actions} actions were never logged ({listed})"


def _unlisted(health: Health) -> Iterator[HealthFinding]:
    """The action list may not be complete."""
    if not health.logged_once:
        return
    text = (
        f"{health.logged_once} of {health.actions} actions were logged only once and "
        "the action list was inferred, so others may be missing: propensities are not "
        "tested, and the uniform policy has no interval; give the list "
        f"({argument('actions', '[...]')})"
    )
    yield _finding("inferred-actions", "care", text)


# --- rewards, context, thinning


def _rewards(health: Health) -> Iterator[HealthFinding]:
    """All rewards are the same."""
    # A mean at an end of the range leaves no other reward.
    if health.mean_reward in health.reward_range and health.rows > 1:
        text = (
            f"every reward is {health.mean_reward:g}, an end of the declared range: no "
            "policy can be seen to differ from another; check the reward column"
        )
        yield _finding("equal-rewards", "care", text)


def _missing_context(health: Health) -> Iterator[HealthFinding]:
    """Context columns have missing values."""
    gaps = [gap for gap in health.context_gaps if gap.missing + gap.nan]
    if not gaps:
        return
    indicator = argument("missing", "indicator")
    severity: Severity = "care"
    advice = (
        f"learning refuses such rows: fill or drop them first, or read the log with {indicator}"
    )
    if gaps[0].indicated:
        severity, advice = "note", f"a column of its own marks them ({indicator})"
    named = _first([_gap(gap) for gap in gaps])
    text = f"context values are missing, of {health.rows:,} rows: {named}; {advice}"
    yield _finding("missing-context", severity, text)


def _infinite_context(health: Health) -> Iterator[HealthFinding]:
    """Context columns have infinite values."""
    named: list[str] = []
    for gap in health.context_gaps:
        if gap.infinite:
            named.append(f"{label_text(gap.column)} in {gap.infinite:,}")
    if not named:
        return
    text = (
        f"context values are infinite, of {health.rows:,} rows: {_first(named)}; "
        "learning refuses such rows: find out why they are there; nothing is clipped"
    )
    yield _finding("infinite-context", "care", text)


def _gap(gap: ContextGap) -> str:
    text = f"{label_text(gap.column)} in {gap.missing + gap.nan:,}"
    if gap.nan:
        text += f" ({gap.nan:,} of them NaN)"
    return text


def _first(parts: Sequence[str]) -> str:
    text = ", ".join(parts[:_NAMED])
    if len(parts) > _NAMED:
        text += f" and {len(parts) - _NAMED} more columns"
    return text


def _thinned(health: Health) -> Iterator[HealthFinding]:
    """Thinned logs cannot be tested."""
    if health.thinned:
        text = (
            "the log was thinned (sampling weights): no test of propensities, no "
            "finite-sample intervals"
        )
        yield _finding("thinned", "note", text)


# --- text


def _finding(
    kind: str, severity: Severity, text: str, heavy: Sequence[HeavyRow] = ()
) -> HealthFinding:
    return HealthFinding(kind, severity, rendered(text), tuple(row.row for row in heavy))


def _read(health: Health) -> Iterator[HealthFinding]:
    """Damage to files may have gone unnoticed."""
    for text in health.caveats:
        yield _finding("unverified", "note", text)


def _counted(number: float, what: str) -> str:
    """Return a number of rows or units in words.

    >>> _counted(1.2, "rows"), _counted(3.0, "rows"), _counted(12.3, "units")
    ('one row', 'three rows', '12 units')
    """
    whole = round(number)
    if whole == 1:
        return f"one {what.removesuffix('s')}"
    if whole < len(_WORDS):
        return f"{_WORDS[whole]} {what}"
    return f"{whole:,} {what}"


def _size_text(ess: float) -> str:
    """Return an effective sample size, with a decimal if it is small.

    >>> _size_text(2.04), _size_text(29_950.3)
    ('2.0', '29,950')
    """
    if ess < 1000.0:
        return f"{ess:.1f}"
    return f"{ess:,.0f}"


def _finite(value: float) -> str:
    if math.isfinite(value):
        return number(value)
    return "beyond float64"


def _size(row: HeavyRow) -> str:
    """Return weight and propensity of a row, either of which may be beyond what float64 holds."""
    propensity = "below float64"
    if row.propensity > 0.0:
        propensity = f"{row.propensity:.3g}"
    return f"weight {_finite(row.weight)}, propensity {propensity}"
