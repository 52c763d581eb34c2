"""The rules that judge a log: from measurements to findings. `check` gives their reasons."""

from __future__ import annotations

import math
from collections.abc import Iterator

from piwo.health.record import (
    ActionRow,
    ContextGap,
    Health,
    HealthFinding,
    HeavyRow,
    Severity,
    label_text,
)
from piwo.messages import argument, rendered
from piwo.visible import p_value

__all__ = ["findings_of"]

FEWEST = 10.0
"""An effective sample below this is unfit."""
FEW = 100.0
"""An effective sample below this needs care; so does one below a tenth of the rows."""
_NAMED = 5
_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_ORDER: tuple[Severity, ...] = ("unfit", "care", "note")


def findings_of(health: Health) -> tuple[HealthFinding, ...]:
    """Return the findings, most severe first, then in the order of the rules below."""
    rules = (
        _doubts,
        _effective_sample,
        _propensities,
        _exploration,
        _coverage,
        _missing,
        _rewards,
        _context,
        _rare_by_chance,
        _unlisted,
        _thinned,
    )
    found = [finding for rule in rules for finding in rule(health)]
    return tuple(sorted(found, key=lambda finding: _ORDER.index(finding.severity)))


def _doubts(health: Health) -> Iterator[HealthFinding]:
    """Propensities were estimated, or may be too small."""
    for text in health.doubts:
        yield _finding("propensity-error", "care", text)


def _effective_sample(health: Health) -> Iterator[HealthFinding]:
    """Few rows carry the value of the policy."""
    if health.max_weight == 0:
        text = (
            f"the {health.policy} policy never takes a logged action: all {health.rows} weights "
            "are 0; value it on a log whose logger took its actions"
        )
        yield _finding("no-overlap", "unfit", text)
        return
    ess = 1.0 if health.ess is None else health.ess
    heavy = health.heaviest[: min(max(1, math.ceil(ess)), _NAMED)]
    named = "; ".join(_heavy(x) for x in heavy)
    size = f"of {health.rows}; a weight is beyond float64"
    if health.ess is not None:
        size = f"ESS {ess:.1f} of {health.rows}"
    count = "row" if round(ess) == 1 else "rows"
    start = f"an effective sample of {_word(ess)} {count} ({size})"
    start += f" for the {health.policy} policy"
    if ess < FEWEST:
        advice = (
            f"the value of this policy rests on {'it' if len(heavy) == 1 else 'them'}; "
            "value policies nearer to the logger, or log more exploration"
        )
        yield _finding(
            "effective-sample", "unfit", f"{start}: {named}; {advice}", tuple(x.row for x in heavy)
        )
    elif ess < FEW or ess < health.rows / 10:
        share, carried = health.top_share[10], ""
        if share is not None:
            many = len(health.heaviest)
            carried = f": the heaviest {many} rows carry {_percent(share)} of the weight"
        text = f"{start}{carried}, first {named.split(' (')[0]}; expect wide intervals"
        yield _finding("effective-sample", "care", text, tuple(x.row for x in health.heaviest))


def _heavy(x: HeavyRow) -> str:
    carries = "" if x.share is None else f" carries {_percent(x.share)} of the weight"
    return f"row {x.row} ({_size(x)}, action {label_text(x.action)}){carries}"


def _propensities(health: Health) -> Iterator[HealthFinding]:
    """Propensities are too small for how often actions were taken."""
    found = [p for p in (health.propensity_p, health.action_p) if p is not None]
    p = min(1.0, 2.0 * min(found, default=1.0))
    if p >= health.delta:
        return
    suspects = sorted(
        (x for x in health.by_action if x.p is not None and x.p < health.delta),
        key=lambda x: (x.p, x.action),
    )
    parts = [_contradiction(x, health.rows) for x in suspects[:3]]
    if len(suspects) > 3:
        parts.append(f"and {len(suspects) - 3} more actions")
    if not parts:
        parts = ["the mean weight of the uniform policy is above 1 by more than chance allows"]
    text = (
        f"logged propensities do not match action frequencies ({p_value(p)}): {'; '.join(parts)}; "
        "every value comes out too high; log the probability with which the action was really drawn"
    )
    yield _finding("propensities-too-small", "unfit" if p < health.delta / 50.0 else "care", text)


def _contradiction(x: ActionRow, rows: int) -> str:
    z = "" if x.z is None else f" (z = {x.z:.0f})"
    return (
        f"action {label_text(x.action)} was taken in {x.count} of {rows} rows ({x.frequency:.4g}) "
        f"at a mean propensity of {x.mean_propensity or 0.0:.4g}, "
        f"so its mean of 1/mu is {_finite(x.mean_inverse)}, expected 1{z}"
    )


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
            f"the logger never explored: all {health.rows} propensities are 1; no other policy can "
            "be valued; log the decisions of a policy that draws its actions"
        )
        yield _finding("no-exploration", "unfit", text)


def _coverage(health: Health) -> Iterator[HealthFinding]:
    """Actions were never logged."""
    missing = health.actions - health.actions_logged
    if missing == 0:
        return
    named = ", ".join(label_text(x) for x in health.never_logged[:_NAMED])
    if missing > _NAMED:
        named += ", ..."
    mass, share = health.unsupported_mass, ""
    severity = _severity_of_share(mass)
    if mass is not None:
        share = f"; the {health.policy} policy gives them probability {mass:.4g}"
    text = (
        f"{missing} of {health.actions} actions were never logged ({named}){share}; what they "
        "would have earned is unknown: log them, or keep new policies away from them"
    )
    yield _finding("never-logged", severity, text)


def _missing(health: Health) -> Iterator[HealthFinding]:
    """Part of the policy is not in the log, beyond the actions never logged."""
    if health.thinned or health.max_weight == 0:
        return
    gone = 1.0 - health.mean_weight
    certain = health.mean_weight_z is None and health.rows > 1
    if (
        not (certain or (health.mean_weight_z or 0.0) < -4.0)
        or gone - (health.unsupported_mass or 0.0) < 0.1
    ):
        return
    text = (
        f"the mean weight of the {health.policy} policy is {health.mean_weight:.4g}, expected 1: "
        f"about {_percent(gone)} of what it plays is not in the log (or the propensities are too "
        "large); nothing is known of the rewards there"
    )
    yield _finding("policy-not-in-log", _severity_of_share(gone), text)


def _severity_of_share(share: float | None) -> Severity:
    """Return how bad it is that a share of the policy is not in the log."""
    if share is None:
        return "care"
    if share > 0.5:
        return "unfit"
    return "care" if share > 0.0 else "note"


def _rewards(health: Health) -> Iterator[HealthFinding]:
    """All rewards are the same."""
    if health.mean_reward in health.reward_range and health.rows > 1:
        text = (
            f"every reward is {health.mean_reward:g}, an end of the declared range: no policy can "
            "be seen to differ from another; check the reward column"
        )
        yield _finding("equal-rewards", "care", text)


def _context(health: Health) -> Iterator[HealthFinding]:
    """Context columns have missing or infinite values."""
    gone = [x for x in health.context_gaps if x.missing + x.nan]
    if gone:
        severity: Severity = "care"
        indicator = argument("missing", "indicator")
        advice = (
            f"learning refuses such rows: fill or drop them first, or read the log with {indicator}"
        )
        if gone[0].indicated:
            severity, advice = "note", f"a column of its own says where ({indicator})"
        parts = [_gap(x) for x in gone]
        text = f"context values are missing, of {health.rows} rows: {_first(parts)}; {advice}"
        yield _finding("missing-context", severity, text)
    infinite = [
        f"{label_text(x.column)} in {x.infinite}" for x in health.context_gaps if x.infinite
    ]
    if infinite:
        text = (
            f"context values are infinite, of {health.rows} rows: {_first(infinite)}; learning "
            "refuses such rows: find out why they are there; nothing is clipped"
        )
        yield _finding("infinite-context", "care", text)


def _gap(x: ContextGap) -> str:
    nan = f" ({x.nan} of them NaN)" if x.nan else ""
    return f"{label_text(x.column)} in {x.missing + x.nan}{nan}"


def _first(parts: list[str]) -> str:
    more = f" and {len(parts) - _NAMED} more columns" if len(parts) > _NAMED else ""
    return ", ".join(parts[:_NAMED]) + more


def _rare_by_chance(health: Health) -> Iterator[HealthFinding]:
    """Actions were logged less often than propensities say, as can happen if those are small."""
    rare = sorted(
        (x for x in health.by_action if x.z is not None and x.z < -4.0 and x.count),
        key=lambda x: x.z or 0.0,
    )
    if rare and not health.thinned:
        named = ", ".join(f"{label_text(x.action)}: {x.mean_inverse:.3g}" for x in rare[:3])
        more = ", ..." if len(rare) > 3 else ""
        text = (
            f"the mean of 1/mu is well below 1 for {len(rare)} of {health.actions} actions "
            f"({named}{more}): rows in which they have a small propensity did not turn up, or the "
            "propensities are too large; lower bounds hold all the same"
        )
        yield _finding("rare-actions", "note", text)


def _unlisted(health: Health) -> Iterator[HealthFinding]:
    """The action list may not be complete."""
    if health.logged_once:
        text = (
            f"{health.logged_once} of {health.actions} actions were logged only once and the "
            "action list was inferred, so others may be missing: propensities are not tested, "
            "and the uniform policy has no interval; give the list "
            f"({argument('actions', '[...]')})"
        )
        yield _finding("inferred-actions", "care", text)


def _thinned(health: Health) -> Iterator[HealthFinding]:
    """Thinned logs cannot be tested."""
    if health.thinned:
        text = (
            "the log was thinned (sampling weights): no test of propensities, no finite-sample "
            "intervals"
        )
        yield _finding("thinned", "note", text)


def _finding(kind: str, severity: Severity, text: str, rows: tuple[int, ...] = ()) -> HealthFinding:
    return HealthFinding(kind, severity, rendered(text), rows)


def _word(count: float) -> str:
    whole = round(count)
    return _WORDS[whole] if whole < len(_WORDS) else str(whole)


def _finite(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "beyond float64"


def _size(x: HeavyRow) -> str:
    """Return weight and propensity of a row, either of which may be beyond what float64 holds."""
    mu = f"{x.propensity:.3g}" if x.propensity > 0.0 else "below float64"
    return f"weight {_finite(x.weight)}, propensity {mu}"


def _percent(share: float) -> str:
    """Return a share as text.

    >>> _percent(0.6936), _percent(0.0045)
    ('69 %', '0.45 %')
    """
    return f"{100 * share:.2g} %" if share < 0.995 else f"{100 * share:.0f} %"
