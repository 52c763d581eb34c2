"""The page of a monitored log: the bounds of each policy over time, as one HTML file."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from datetime import date
from html import escape
from pathlib import Path

from piwo._version import __version__
from piwo.checks import check_kind, check_path
from piwo.decision import Units
from piwo.evaluation import Look, Watch, WatchHistory, WatchLook
from piwo.files import write_file
from piwo.report.axis import axis_of
from piwo.report.terms import LOOK_TERMS
from piwo.visible import number, visible

__all__ = ["looks_page", "write_looks"]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720.0, 220.0, 70.0, 14.0, 14.0, 30.0
_SPREAD = 1.5
"""The axis reaches so many times the width of the last interval beyond its ends: the intervals of
the first looks, which may be all that rewards can be, are cut at the border."""
_MOST_POLICIES = 20
_MOST_LOOKS = 400
"""Looks of the table; the figure has all of them."""
_STYLE = """
:root { color-scheme: light dark; --ink: #1d232b; --soft: #5b6673; --line: #d5dae0; --back: #fff;
  --mark: #1f5fa8; --band: #cfe0f3; --good: #1c6b3c; --bad: #a32b1e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e8ec; --soft: #9aa5b1; --line: #3a424c;
  --back: #14181d; --mark: #7fb2ea; --band: #24405f; --good: #77c796; --bad: #ee8a7d; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 62rem; margin: 1.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.35rem; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.05rem; margin: 1.6rem 0 .3rem; overflow-wrap: anywhere; }
p, li { max-width: 50rem; overflow-wrap: anywhere; }
.soft { color: var(--soft); }
.certified { border-left: .4rem solid var(--good); padding-left: .7rem; }
.not-yet { border-left: .4rem solid var(--soft); padding-left: .7rem; }
.stop { border-left: .4rem solid var(--bad); padding-left: .7rem; }
svg { max-width: 100%; height: auto; display: block; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
.grid { stroke: var(--line); } .band { fill: var(--band); }
.value { stroke: var(--mark); stroke-width: 2; fill: none; }
.dot { fill: var(--mark); } .proof { fill: var(--good); }
.logging { stroke: var(--ink); stroke-dasharray: 5 4; fill: none; }
.scroll { overflow-x: auto; }
details { border-top: 1px solid var(--line); padding: .5rem 0; }
summary { cursor: pointer; font-weight: 600; }
dt { font-weight: 600; }
dd { margin: 0 0 .5rem; color: var(--soft); overflow-wrap: anywhere; max-width: 50rem; }
.term { display: inline-block; position: relative; }
.term button { font: inherit; color: inherit; background: none; border: 0; padding: 0;
  border-bottom: 1px dotted currentColor; cursor: help; }
.term [role="tooltip"] { display: none; position: absolute; z-index: 2; left: 0; top: 1.6em;
  width: max-content; max-width: min(20rem, 70vw); background: var(--ink); color: var(--back);
  padding: .5rem .7rem; border-radius: .4rem; font-size: .85rem; font-weight: 400; }
.term:hover [role="tooltip"], .term:focus-within [role="tooltip"] { display: block; }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
td:first-child { white-space: nowrap; }
@media (max-width: 40rem) { .term [role="tooltip"] { position: fixed; left: 1rem; right: 1rem;
  bottom: 1rem; top: auto; width: auto; max-width: none; }
  svg text { font-size: 18px; } thead { display: none; }
  table, tbody, tr, td { display: block; }
  tr { border-bottom: 1px solid var(--line); padding: .3rem 0; }
  td, td:first-child, td:nth-child(2) { border: 0; padding: 0; text-align: left; }
  td { overflow-wrap: anywhere; }
  td::before { content: attr(data-label) ": "; color: var(--soft); } }
@media print { body { margin: 0; max-width: none; } .term [role="tooltip"] { display: none; } }
"""


def looks_page(watch: Watch | WatchHistory, *, units: Units | None = None) -> str:
    """Return the looks of a watch as one HTML page: the answer, a figure a policy, and details.

    Nothing is fetched, the page's content policy forbids scripts, and names are escaped. Terms are
    explained on focus and hover, and in a list at the end.

    Args:
        watch: with at least one look; or its history, as `WatchHistory.load` reads it from a file.
        units: how values and gains are written.

    Raises:
        UsageError: for no looks.

    >>> import piwo
    >>> a = piwo.policies.Constant("a", ["a", "b"])
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> watch = piwo.Watch.start({"a": a}).update(log, date="2026-11-29")
    >>> clicks = piwo.Units("clicks", 100, "visits")
    >>> made = looks_page(watch, units=clicks)
    >>> made.startswith("<!DOCTYPE html>"), "<script" in made, "100 clicks per 100 visits" in made
    (True, False, True)
    """
    history = _history(watch)
    check_kind("units", units, (Units, type(None)))
    shown, looks, last = units or Units(), history.looks, history.last
    allowed = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    content = (
        f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    )
    span = f"{len(looks)} looks from {looks[0].date} to {last.date}"
    if len(looks) == 1:
        span = f"1 look on {last.date}"
    elif looks[0].date == last.date:
        span = f"{len(looks)} looks on {last.date}"
    span += f", {last.rows:,} {shown.decisions}"
    # a percentage is not broken over two lines
    headline = _text(history.headline(shown)).replace(" %", "&nbsp;%")
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{content}">',
        '<meta name="referrer" content="no-referrer">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>piwo monitor: {_text(last.answer)}</title>",
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<main>",
        f'<h1 class="{last.answer.replace(" ", "-")}">{headline}</h1>',
        f'<p class="soft">{_text(span)}; made by piwo {__version__}.</p>',
        f"<p>{_legend(shown, cost=history.cost)}</p>",
        _terms_of(history, shown),
    ]
    for name in [one.name for one in last.policies][:_MOST_POLICIES]:
        parts += [f"<h2>{_text(name)}</h2>", _figure(name, looks, shown)]
    parts += ["<h2>All looks</h2>", _table(history, shown)]
    listed = [f"<li>{_text(note)}</li>" for note in history.notes]
    if listed:
        parts += ["<h2>Notes</h2>", "<ul>", *listed, "</ul>"]
    parts.append("<details><summary>Terms</summary><dl>")
    parts += [f"<dt>{_text(x.name)}</dt><dd>{_text(x.text)}</dd>" for x in LOOK_TERMS.values()]
    parts.append("</dl></details>")
    return "\n".join([*parts, "</main>\n</body>\n</html>\n"])


def write_looks(
    watch: Watch | WatchHistory, path: str | os.PathLike[str], *, units: Units | None = None
) -> None:
    """Write the page of the looks of a watch in UTF-8, whole or not at all.

    Args:
        watch: with at least one look; or its history, as `WatchHistory.load` reads it from a file.
        path: the file, which is replaced if it exists.
        units: how values and gains are written.

    Raises:
        UsageError: for no looks.
        FileError: if the file cannot be written.

    >>> import piwo
    >>> a = piwo.policies.Constant("a", ["a", "b"])
    >>> write_looks(piwo.Watch.start({"a": a}), "page.html")
    Traceback (most recent call last):
    piwo.errors.UsageError: the watch has seen no rows; update it with a log first
    """
    check_path(path)
    write_file(Path(path), looks_page(watch, units=units).encode("utf-8"))


def _history(watch: Watch | WatchHistory) -> WatchHistory:
    """Return the history of a watch, which has at least one look."""
    check_kind("watch", watch, (Watch, WatchHistory))
    history = watch.history if isinstance(watch, Watch) else watch
    _ = history.last
    return history


def _term(key: str, words: str) -> str:
    """Return words that are explained on focus and hover."""
    return (
        f'<span class="term"><button type="button" aria-describedby="term-{key}">{_text(words)}'
        f'</button><span role="tooltip" id="term-{key}">{_text(LOOK_TERMS[key].text)}</span></span>'
    )


def _legend(units: Units, *, cost: bool) -> str:
    """Return what the figures show, with its terms explained."""
    values = _text(units.values(cost=cost))
    return (
        f"The line is the {_term('estimate', 'estimated')} value of the {_term('policy', 'policy')}"
        f" ({values}), by all rows so far. Its true value is within the band at all looks together,"
        " with the probability that is stated above. Dashed: the same of today's system, which"
        " wrote the log. Large green dots: looks at which the policy is"
        f" {_term('certified', 'certified')} better, by all rows so far; a later look may lose"
        " that again."
    )


def _terms_of(history: WatchHistory, units: Units) -> str:
    """Return what was asked, when it ends, what holds and what that assumes, folded."""
    named = {"asked": "Asked", "deadline": "Deadline", "holds": "What holds", "bets": "Bets"}
    explained = {"bets": "bets", "deadline": "deadline"}
    lines = []
    for name, words in history.terms(units):
        shown = _text(named.get(name, "Assumed"))
        if name in explained:
            shown = _term(explained[name], named[name])
        lines.append(f"<dt>{shown}</dt><dd>{_text(words)}</dd>")
    ends = ""
    if history.rest:
        ends = f"; {history.rest}"
    return (
        f"<details><summary>What this promises and assumes{_text(ends)}</summary><dl>"
        f"{''.join(lines)}</dl></details>"
    )


def _text(text: object) -> str:
    return escape(visible(text))


def _figure(name: str, looks: Sequence[WatchLook], units: Units) -> str:
    """Return the figure of one policy as inline SVG, with the same in words."""
    points: list[tuple[WatchLook, Look]] = []
    for look in looks:
        points += [(look, one.scaled(units.per)) for one in look.policies if one.name == name]
    low, high = _axis([one for _, one in points])
    days = [float(date.fromisoformat(look.date).toordinal()) for look, _ in points]
    if days[0] == days[-1]:
        # several looks on one day, or one look: by their number
        days = [float(place) for place in range(len(points))]
    span = days[-1] - days[0]

    def x(place: int) -> float:
        share = 0.5
        if span > 0.0:
            share = (days[place] - days[0]) / span
        return LEFT + (WIDTH - LEFT - RIGHT) * share

    def y(value: float) -> float:
        share = (min(high, max(low, value)) - low) / (high - low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share

    words = _words(points[-1][1], low, high, units)
    size = f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}" width="{WIDTH:g}" height="{HEIGHT:g}"'
    parts = [f'<svg role="img" {size} aria-label="{_text(words)}">']
    for place, text in axis_of(low, high).ticks:
        at = y(low + (high - low) * place / 100.0)
        parts.append(
            f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" y1="{at:.1f}" '
            f'y2="{at:.1f}"/><text x="{LEFT - 8:g}" y="{at + 4:.1f}" '
            f'text-anchor="end">{text}</text>'
        )
    parts += _marks(points, x, y)
    first, last = points[0][0].date, points[-1][0].date
    parts.append(f'<text x="{LEFT:g}" y="{HEIGHT - 8:g}">{first}</text>')
    if last != first:
        parts.append(
            f'<text x="{WIDTH - RIGHT:g}" y="{HEIGHT - 8:g}" text-anchor="end">{last}</text>'
        )
    return "\n".join([*parts, "</svg>", f'<p class="soft">{_text(words)}</p>'])


def _marks(
    points: Sequence[tuple[WatchLook, Look]],
    x: Callable[[int], float],
    y: Callable[[float], float],
) -> list[str]:
    """Return the band, the two lines and the dots."""
    upper, lower, values, logging, dots = [], [], [], [], []
    for place, (look, one) in enumerate(points):
        at = x(place)
        if one.lower is not None and one.upper is not None:
            upper.append(f"{at:.1f},{y(one.upper):.1f}")
            lower.append(f"{at:.1f},{y(one.lower):.1f}")
        if one.logging_value is not None:
            logging.append(f"{at:.1f},{y(one.logging_value):.1f}")
        if one.value is not None:
            values.append(f"{at:.1f},{y(one.value):.1f}")
            # larger, too, for those who see no difference in color
            kind, size = "dot", "3"
            if one.name in look.certified:
                kind, size = "proof", "4.5"
            center = f'cx="{at:.1f}" cy="{y(one.value):.1f}"'
            dots.append(f'<circle class="{kind}" {center} r="{size}"/>')
    if len(upper) == 1:
        # one look has no width
        middle, top = upper[0].split(",")
        bottom = lower[0].split(",")[1]
        left, right = float(middle) - 3.0, float(middle) + 3.0
        band = f"{left:.1f},{top} {right:.1f},{top} {right:.1f},{bottom} {left:.1f},{bottom}"
    else:
        band = " ".join([*upper, *reversed(lower)])
    return [
        f'<polygon class="band" points="{band}"/>',
        f'<polyline class="logging" points="{" ".join(logging)}"/>',
        f'<polyline class="value" points="{" ".join(values)}"/>',
        *dots,
    ]


def _axis(found: Sequence[Look]) -> tuple[float, float]:
    """Return the ends of the vertical axis: around the last interval."""
    last = found[-1]
    near = [last.lower, last.upper, last.value, last.logging_value]
    ends = [value for value in near if value is not None] or [0.0, 1.0]
    low, high = min(ends), max(ends)
    if not high > low:
        return low - 0.5, high + 0.5
    wide = _SPREAD * (high - low)
    inside = list(ends)
    for one in found:
        for value in (one.lower, one.upper, one.value, one.logging_value):
            if value is not None and low - wide <= value <= high + wide:
                inside.append(value)
    room = 0.04 * (max(inside) - min(inside))
    return min(inside) - room, max(inside) + room


def _words(last: Look, low: float, high: float, units: Units) -> str:
    ends = "no interval"
    if last.lower is not None:
        ends = f"between {number(last.lower)} and {number(last.upper)}"
    gain = "no bound on the gain"
    if last.improvement_lower is not None:
        gain = f"gain at least {Units().at_least(last.improvement_lower, last.gain)}"
    unit = units.axis
    if last.cost:
        unit = f"({units.values(cost=True)})"
    return (
        f"{last.name}, now: {number(last.value)} {unit}, {ends}; today's system "
        f"{number(last.logging_value)}; {gain} (a bound of its own, on the same rows). The "
        f"figure ends at {number(low)} and {number(high)}; bands that reach further are cut there."
    )


def _table(history: WatchHistory, units: Units) -> str:
    looks = history.looks
    header = (
        "day",
        "policy",
        units.decisions,
        "value",
        "lower",
        "upper",
        "improvement, at least",
        "logged",
        "certified",
    )
    legend = units.legend(cost=history.cost)
    lines = [f'<p class="soft">{_text(legend[0].upper() + legend[1:])}.</p>']
    lines.append('<div class="scroll"><table><thead><tr>')
    lines += [f'<th scope="col">{_text(one)}</th>' for one in header]
    lines.append("</tr></thead><tbody>")
    for look in reversed(looks[-_MOST_LOOKS:]):
        for each in look.policies:
            one = each.scaled(units.per)
            ends = (one.value, one.lower, one.upper, one.improvement_lower, one.logging_value)
            proved = "yes" if one.name in look.certified else "no"
            cells = [look.date, one.name, f"{look.rows:,}", *map(number, ends), proved]
            row = ""
            for what, cell in zip(header, cells, strict=True):
                row += f'<td data-label="{_text(what)}">{_text(cell)}</td>'
            lines.append(f"<tr>{row}</tr>")
    lines.append("</tbody></table></div>")
    if len(looks) > _MOST_LOOKS:
        lines.append(f'<p class="soft">{len(looks) - _MOST_LOOKS} earlier looks: with --json.</p>')
    return "\n".join(lines)
