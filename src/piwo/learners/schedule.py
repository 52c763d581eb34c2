"""In which order candidates are learned, and when no further one is started."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from piwo.engines.stages import OutOfTimeError, Stage, report_stage, time_limit
from piwo.errors import NothingToLearnError
from piwo.learners.pool import Candidate, in_paths
from piwo.logs.log import Log
from piwo.messages import Note
from piwo.policies import Policy

__all__ = ["Learned", "Schedule", "solved"]

T = TypeVar("T")
Learned = dict[str, Policy | None]
"""Label -> the policy of each candidate; None if no row has a reward to learn from."""

_FOR_LEARNING = 0.8
"""Share of the time for learning; certificates take the rest."""
_FOR_FALLBACK = 0.2
"""Share of the time that is kept for what is learned if nothing is certified."""
_LATEST = 1.1
"""Nothing is learned again if that would end later, as a share of the time."""


class Schedule:
    """Learns candidates one after the other, until time is up or Ctrl-C is pressed.

    A candidate is learned from every part of the log before the next one starts, and one that was
    not finished leaves nothing behind. So each policy depends on its rows alone, never on the time
    that another took, and certificates whose shares of delta were fixed before stay valid whichever
    candidates are missing.

    Args:
        seconds: the time for everything; None: no limit. The first candidate is learned in any
            case.
        again: whether one of them will be learned again from all rows.
        fallback: whether something else is learned if nothing is certified.
    """

    def __init__(self, seconds: float | None, *, again: bool, fallback: bool = False) -> None:
        self._seconds, self._again, self._fallback = seconds, again, fallback
        self._started = time.monotonic()
        self._took: dict[str, float] = {}
        # of the last work that had to be finished
        self._finished: float | None = None
        self.interrupted = False
        """Whether Ctrl-C was pressed."""
        self.left_out: tuple[str, ...] = ()
        """Labels of the candidates that a look at a sample left out."""
        self.not_tried: tuple[str, ...] = ()
        """Labels of the candidates that were not learned."""

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    def promising(
        self, pool: Sequence[Candidate], judge: Callable[[], tuple[Candidate, ...]]
    ) -> tuple[Candidate, ...]:
        """Return the candidates to learn, in their order; all of them if judging takes too long.

        Args:
            pool: all candidates.
            judge: returns those that do better on a sample.
        """
        report_stage(Stage("judging candidates on a sample", left=self._until_end(None)))
        try:
            with time_limit(self._limit(1)):
                kept = judge()
        except OutOfTimeError:
            return tuple(pool)
        labels = {one.label for one in kept}
        self.left_out = tuple(one.label for one in pool if one.label not in labels)
        return kept

    def learn(self, pool: Sequence[Candidate], parts: Sequence[Log]) -> list[Learned]:
        """Return what was learned from each part: the same candidates from each.

        Args:
            pool: candidates in the order in which they are learned; neighbors with one oracle are
                one path.
            parts: rows to learn from.
        """
        learned: list[Learned] = [{} for _ in parts]
        for number, path in enumerate(in_paths(pool)):
            if number > 0 and not self._time_for_more():
                break
            before = self.elapsed
            report_stage(Stage(f"learning {path[0].label}"))
            try:
                with time_limit(self._limit(number)):
                    found = [solved(path, part) for part in parts]
            except OutOfTimeError:
                break
            except KeyboardInterrupt:
                if not self._goes_on(possible=number > 0):
                    raise
                break
            for policies, some in zip(learned, found, strict=True):
                policies.update(some)
            for one in path:
                self._took[one.label] = self.elapsed - before
            self._report(path, len(learned[0]), len(pool))
        self.not_tried = tuple(one.label for one in pool if one.label not in learned[0])
        return learned

    def finish(self, work: Callable[[], T], what: str) -> T:
        """Return the result of work that must be done; after a first Ctrl-C it is begun again.

        Args:
            work: may be called twice.
            what: it does, in words.
        """
        began = self.elapsed
        report_stage(Stage(what, left=self._until_end(self._finished)))
        try:
            made = work()
        except KeyboardInterrupt:
            if not self._goes_on(possible=True):
                raise
            made = work()
        self._finished = self.elapsed - began
        return made

    def more(self, label: str, work: Callable[[], T]) -> T | None:
        """Return what is learned from all rows; None if there is no time for it.

        Args:
            label: of a candidate that was learned before, or of something else.
            work: learns.
        """
        # from two parts it took about as long as from all rows
        expected = self._took.get(label)
        made = self._more(label, expected, work)
        if made is None and expected is None:
            self.not_tried = (*self.not_tried, label)
        return made

    def _more(self, label: str, expected: float | None, work: Callable[[], T]) -> T | None:
        if self.interrupted:
            return None
        limit = None
        if self._seconds is not None:
            limit = self._started + _LATEST * self._seconds
            if time.monotonic() + (expected or 0.0) > limit:
                return None
        report_stage(Stage(f"learning {label} from all rows", left=self._until_end(expected)))
        try:
            with time_limit(limit):
                return work()
        except OutOfTimeError:
            return None
        except KeyboardInterrupt:
            self._goes_on(possible=True)
            return None

    @property
    def note(self) -> Note | None:
        """Which candidates are missing, and why; None if none is."""
        left_out = f"on a sample others did better than {'; '.join(self.left_out)}"
        if not self.not_tried and not self.left_out:
            return None
        if not self.not_tried:
            return Note(f"not tried: {left_out}", kind="unfinished")
        why = "learning was interrupted"
        if not self.interrupted:
            why = (
                f"the time of {self._seconds:g} s was up; the result depends on the speed of the "
                "machine"
            )
        text = f"not tried: {'; '.join(self.not_tried)} ({why})"
        if self.left_out:
            text += f"; {left_out}"
        return Note(text, kind="unfinished")

    def _limit(self, number: int) -> float | None:
        """Return the `time.monotonic()` at which a candidate is given up."""
        if self._seconds is None or number == 0:
            return None
        # whichever is chosen can still be learned again, or if none is, something else
        kept = 0.0
        if self._again:
            kept = max(self._took.values(), default=0.0)
        if self._fallback:
            kept = max(kept, _FOR_FALLBACK * self._seconds)
        return self._started + _FOR_LEARNING * self._seconds - kept

    def _until_end(self, expected: float | None) -> float | None:
        """Return the seconds that are left: as expected, or until the limit if that is unknown."""
        if expected is None and self._seconds is not None:
            return max(0.0, self._seconds - self.elapsed)
        return expected

    def _time_for_more(self) -> bool:
        limit = self._limit(1)
        return limit is None or time.monotonic() < limit

    def _goes_on(self, *, possible: bool) -> bool:
        """Whether to end with what there is after Ctrl-C; a second one ends everything."""
        if self.interrupted or not possible:
            return False
        self.interrupted = True
        report_stage(
            Stage(
                "interrupted: finishing with what was learned; Ctrl-C again ends without a result",
                done=True,
                interrupted=True,
            )
        )
        return True

    def _report(self, path: Sequence[Candidate], done: int, count: int) -> None:
        """Report that the candidates of a path are learned."""
        left = None
        # Certificates are made after the last candidate: how long that takes is not known.
        if done < count:
            left = self.elapsed / done * (count - done)
            if self._again:
                left += max(self._took.values())
            if self._seconds is not None:
                left = max(0.0, min(left, self._seconds - self.elapsed))
        names = "; ".join(one.label for one in path)
        report_stage(Stage(f"learned {done} of {count}: {names}", done=True, left=left))


def solved(path: Sequence[Candidate], log: Log) -> Learned:
    """Return name and policy of each candidate of a path; None: nothing to learn from.

    Args:
        path: candidates with one oracle.
        log: rows to learn from.
    """
    labels = [one.label for one in path]
    try:
        policies = path[0].oracle.solve_path(log, [one.credit(log) for one in path])
    except NothingToLearnError:
        return dict.fromkeys(labels)
    return dict(zip(labels, policies, strict=True))
