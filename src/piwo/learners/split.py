"""The rows that a learner learns from and the rows that its certificate is on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from piwo.certificates.certificate import Kind
from piwo.checks import check_flag, check_seed
from piwo.errors import UsageError, warn
from piwo.evaluation.notes import copies_note
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.reductions import Joint
from piwo.reductions.reduce import reduce
from piwo.reductions.repeats import Repeats

__all__ = ["Split"]


@dataclass(frozen=True)
class Split:
    """Training rows, rows to certify on, and the facts of the split that a certificate records.

    >>> log = Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    >>> Split.of(log, "in-sample", 0.5, 0, False).facts
    {'training_rows': 18, 'log_rows': 18}
    """

    training: Log
    test: Log | None = None
    """None without a certificate."""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls, log: Log, kind: Kind | None, holdout: float, random_state: Any, tail: bool
    ) -> Split:
        """Return two parts of a log, the whole log twice, or the log alone.

        Args:
            log: the rows.
            kind: of the certificate: "held-out", "in-sample" or None.
            holdout: see `SplitLearner`.
            random_state: see `SplitLearner`.
            tail: see `SplitLearner`.
        """
        check_seed("random_state", random_state)
        check_flag("tail", tail)
        if kind is None:
            return cls(log)
        if kind == "held-out":
            log = _checked_rows(log, tail)
            tail = tail or log.logger == "learning"
        if kind == "in-sample":
            return cls(log, log, {"training_rows": len(log), "log_rows": len(log)})
        seed = int(random_state)
        parts = log.split(holdout=holdout, seed=seed, tail=tail)
        facts = {
            "training_rows": parts.train_rows,
            "log_rows": parts.train_rows + parts.test_rows,
            "split": {
                "holdout": holdout,
                "seed": seed,
                "tail": tail,
                "time": log.columns.time,
                "key": log.columns.key,
                "unit": log.columns.unit,
                "notes": list(parts.notes),
            },
        }
        return cls(parts.train, parts.test, facts)

    @property
    def certified_on(self) -> Log:
        """The rows to certify on, of a split with a certificate."""
        assert self.test is not None
        return self.test

    def exchanged(self) -> Split:
        """Return the two parts of a random split in exchanged roles; not for rows ordered in time.

        >>> log = Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
        >>> one = Split.of(log, "held-out", 0.3, 0, False)
        >>> one.exchanged().facts["training_rows"] == len(one.test)
        True
        """
        ours, theirs = self.training, self.certified_on
        # only the choice of rows is exchanged: training must know the actions and levels of its own
        # rows alone, whichever part they are
        training = replace(ours, selector=theirs.selector, propensity_error=theirs.propensity_error)
        test = replace(theirs, selector=ours.selector, propensity_error=ours.propensity_error)
        facts = {
            **self.facts,
            "training_rows": self.facts["log_rows"] - self.facts["training_rows"],
            "split": {**self.facts["split"], "exchanged": True},
        }
        return Split(training, test, facts)


def _checked_rows(log: Log, tail: bool) -> Log:
    """Return the log, with a logger that learned if its rows show that; raise for copies of rows.

    If the logger, of which nothing is declared, learned from earlier rows, rows that are held out
    at random are no test: the actions of later rows reveal the rewards of earlier ones, on both
    sides. Copies of a row would be on both sides, too.

    Args:
        log: the rows.
        tail: whether they are to be held out anyway.

    Raises:
        UsageError: if rows are copies of each other.
    """
    # The split looks at the keys.
    if not log.has_context or log.unprovable is not None:
        return log
    # What was declared is not looked for.
    undeclared = log.logger is None and not tail and log.propensities_are_logged
    may_repeat = log.columns.key is None and log.columns.unit is None
    if not undeclared and not may_repeat:
        return log
    propensities, rows = reduce(log, Joint((Repeats("propensities"), Repeats("rows"))))
    if may_repeat and rows.copied is not None:
        raise UsageError(
            f"{copies_note(rows.copied)}; the certificate would be on copies of rows that were "
            "learned from"
        )
    changed = propensities.changed
    if not undeclared or changed is None:
        return log
    warn(
        f"{changed[0]} of {changed[1]} pairs of a context and an action that were sampled have "
        "several propensities: the logger seems to have learned from earlier rows, so the last "
        f"rows are held out, not random ones; declare {argument('logger', 'learning')} or "
        f"{argument('logger', 'fixed')}"
    )
    return replace(log, logger="learning")
