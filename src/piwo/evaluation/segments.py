"""Requests by segment: value, improvement and action mix for each value of a column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from piwo import bounds
from piwo.checks import shown
from piwo.engines.engine import fold
from piwo.errors import UsageError
from piwo.evaluation.notes import loss_notes, outside_notes, refusal
from piwo.evaluation.request import Request
from piwo.evaluation.result import PolicyResult, in_units
from piwo.evaluation.segment import Segment
from piwo.intervals.matching import resolve_gamma
from piwo.intervals.weight_sums import effective_size
from piwo.logs.column_names import require_columns
from piwo.logs.log import Log
from piwo.logs.reader import MOST_COUNTED, CountSegments, Reader
from piwo.logs.segments import Segments
from piwo.messages import Note, argument
from piwo.reductions import Joint, MomentState
from piwo.reductions.action_mix import ActionMix, MixState
from piwo.reductions.by_segment import BySegment

__all__ = ["MOST_SEGMENTS", "SegmentRequest", "segment_counts", "segments_from"]

MOST_SEGMENTS = 100
"""More segments would leave too little of delta for each."""
_FEW = 50.0
"""An effective sample size below this is noted."""


def segment_counts(log: Log, by: Any) -> Mapping[str | None, int]:
    """Return how many rows have each value of a column, of at most `MOST_COUNTED` + 1 values.

    Args:
        log: the rows.
        by: the column.

    Raises:
        DataError: for a column that does not exist, or has values that are no labels.
        UsageError: for a column of what was decided or earned.
    """
    if not isinstance(by, str):
        raise UsageError(f"{argument('by')} is {shown(by)}, expected the name of a column")
    require_columns([by], log.source.schema.names, "segments")
    log.columns.check_segments([by])
    reader = Reader(log.unlabeled, log.selector)
    chosen = [by]
    if log.selector is not None and log.columns.numbering is not None:
        chosen.append(log.columns.numbering)
    return fold(log.source, list(dict.fromkeys(chosen)), CountSegments(reader, by))


def segments_from(by: str, counts: Mapping[str | None, int]) -> Segments:
    """Return the segments of counted values, those of most rows first.

    >>> segments_from("country", {"DE": 2, "AT": 7}).labels
    ('AT', 'DE')
    """
    ordered = sorted(counts, key=lambda label: (-counts[label], label is None, label or ""))
    return Segments(by, tuple(ordered), tuple(counts[label] for label in ordered))


@dataclass(frozen=True)
class SegmentRequest:
    """A request for each segment of a log, all in one pass.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a"], reward=[1], propensity=[1.0], segments={"day": ["Monday"]}
    ... )
    >>> SegmentRequest.segments_of(log, "day").labels
    ('Monday',)
    """

    log: Log
    """The rows, whose batches say which segment they are in."""
    segments: Segments
    each: tuple[Request, ...]
    whole: Request

    @staticmethod
    def segments_of(log: Log, by: Any) -> Segments:
        """Return the segments of a log, the largest first; a pass over one column.

        Args:
            log: the rows.
            by: the column.

        Raises:
            DataError: for a column that does not exist, or has values that are no labels.
            UsageError: for a column of what was decided or earned, and for too many segments.
        """
        counts = segment_counts(log, by)
        if len(counts) > MOST_SEGMENTS:
            found = str(len(counts))
            if len(counts) > MOST_COUNTED:
                found = f"more than {MOST_COUNTED}"
            raise UsageError(
                f"column {by!r} has {found} values, expected at most {MOST_SEGMENTS} to split "
                "results by; group them into fewer in a column of their own"
            )
        return segments_from(by, counts)

    @classmethod
    def of(cls, request: Request, by: Any, gamma: float | str = "auto") -> Self:
        """Return the requests of all segments.

        Args:
            request: that of all rows.
            by: the column.
            gamma: see `piwo.evaluate`.

        Raises:
            UsageError: see `segments_of`, and for a horizon or an interval method that reads the
                rows again.
        """
        if request.horizon is not None:
            raise UsageError(
                f"a later look may find new segments; leave {argument('by')} or "
                f"{argument('horizon')} out"
            )
        for method in request.methods.values():
            if method.needs_second_pass:
                raise UsageError(
                    f"{argument('interval', method.name)} reads all rows again and has no "
                    f"intervals by segment; use {argument('interval', 'auto')}"
                )
        segments = cls.segments_of(request.log, by)
        delta = request.budget.delta / len(segments.labels)
        each = []
        for rows in segments.rows:
            score = request.score
            if request.estimator.smoothed:
                score = request.estimator.score(resolve_gamma(gamma, rows, delta))
            budget = replace(request.budget, delta=delta)
            one = replace(
                request, budget=budget, score=score, first_look=False, detects_learning=False
            )
            each.append(one)
        return cls(replace(request.log, segments=segments), segments, tuple(each), request)

    @property
    def sums(self) -> BySegment:
        """What must be summed over the log, besides the sums of the request of all rows."""
        actions = len(self.log.actions)
        mixes = Joint(tuple(ActionMix(policy, actions) for policy in self.whole.policies.values()))
        return BySegment(tuple(Joint((one.sums, mixes)) for one in self.each))

    def finish(
        self, states: tuple[Any, ...], why_not: Mapping[Any, Note | None]
    ) -> dict[Any, tuple[Segment, ...]]:
        """Return key -> what the rows of each segment say of a policy.

        Args:
            states: of `sums`.
            why_not: key -> why all rows together give no bound for a policy; None if they do.
        """
        made: dict[Any, tuple[Segment, ...]] = dict.fromkeys(self.whole.policies, ())
        numbered = zip(self.segments.labels, self.each, states, strict=True)
        for label, request, (sums, mixes) in numbered:
            here = request.finish(sums)
            for key, mix in zip(self.whole.policies, mixes, strict=True):
                one = here.policies[key]
                if one.why_not is None and why_not.get(key) is not None:
                    one = replace(one, contradicted=why_not[key])
                made[key] = (*made[key], self._segment(label, request, one, mix))
        return made

    def _segment(
        self, label: str | None, request: Request, one: PolicyResult, mix: MixState
    ) -> Segment:
        """Return what the rows of one segment say of one policy, in the reward's unit."""
        log, sums = request.log, one.evidence.state.moments
        shown_ends, value = one.shown, one.evidence.estimate.value
        improvement = most = None
        if one.why_not is None:
            improvement, most = one.improvement(log.span)
        baseline = None
        if one.baseline is not None:
            baseline = one.baseline.value(log)
        today, then = mix.shares
        made = Segment(
            column=self.segments.column,
            label=label,
            rows=sums.logged,
            units=log.columns.units_of(sums.rows),
            ess=effective_size(sums.w, sums.w2),
            value=in_units(value, log),
            lower=in_units(shown_ends.lower, log),
            upper=in_units(shown_ends.upper, log),
            improvement_lower=improvement,
            improvement_upper=most,
            logging_value=log.value(sums.reward / sums.total) if sums.total else None,
            baseline_value=baseline,
            delta=request.budget.delta,
            bound=one.method.name,
            today=_shares(log, today),
            then=_shares(log, then),
            notes=tuple(_notes(one, sums, shown_ends)),
        )
        vacuous = any(note.kind == "vacuous" for note in made.notes)
        if vacuous or shown_ends.guarantee != "finite-sample":
            return made
        loss = loss_notes(
            (made.value, made.lower, made.upper),
            made.logging_value,
            log.reward_range,
            (improvement, most),
        )
        return replace(made, notes=(*made.notes, *loss))


def _shares(log: Log, shares: Any) -> dict[str, float]:
    """Return action -> share."""
    return {str(x): float(share) for x, share in zip(log.actions.labels, shares, strict=True)}


def _notes(one: PolicyResult, sums: MomentState, ends: bounds.Interval) -> list[Note]:
    """Return why there is no bound in a segment, or why one says little."""
    notes = []
    if one.why_not is not None:
        notes.append(refusal(one.why_not))
    elif one.withheld is not None:
        notes.append(one.withheld)
    ess = effective_size(sums.w, sums.w2)
    if ess is not None and ess < _FEW:
        notes.append(
            Note(
                f"the effective sample size is {ess:.3g}: few rows carry the estimate",
                kind="effective-sample",
            )
        )
    highest = ends.upper is None or ends.upper >= one.most
    if one.why_not is None and (ends.lower or 0.0) <= 0.0 and highest:
        notes.append(Note("the bounds say nothing about the value here", kind="vacuous"))
    if one.why_not is None:
        value = one.evidence.estimate.value
        notes += outside_notes(value, ends.lower, ends.upper, one.evidence.estimator.name)
    return notes
