"""Splitters for cross-validation of logged decisions: whole units, and forward in time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils.validation import check_consistent_length, column_or_1d

from piwo.checks import check_count, check_seed
from piwo.errors import DataError, UsageError
from piwo.learners.folds import Fold
from piwo.logs.actions import label_array
from piwo.logs.hashing import key_numbers
from piwo.logs.times import stretches

__all__ = ["TimeFold", "UnitFold"]

Rows: TypeAlias = npt.NDArray[np.int64]


class UnitFold(BaseCrossValidator):
    """Folds of whole units, such as users: a fold depends on the unit and the seed alone.

    scikit-learn stratifies the folds of classifiers by y unless it is given a splitter. Here y
    holds actions, and a split must not look at these: see docs/theory.md, section "A held-out
    split must not look at the actions".

    Args:
        n_splits: number of folds, at least 2.
        random_state: seed of the folds.

    Units are the `groups` of `split`. With metadata routing they are the metadata `unit`, the same
    as for `OffPolicyClassifier.fit`. Without units each row is one.

    >>> import numpy as np
    >>> users = np.repeat(np.arange(50), 2)
    >>> [len(test) for _, test in UnitFold(3).split(users, groups=users)]
    [18, 44, 38]
    """

    # metadata called `unit` is what `split` calls `groups`
    __metadata_request__split: ClassVar[dict[str, Any]] = {"groups": "unit"}

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        check_count("n_splits", n_splits, 2, "the number of folds")
        check_seed("random_state", random_state)
        self.n_splits = n_splits
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: ARG002
        """Return the number of folds."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Rows, Rows]]:  # noqa: ARG002
        """Yield for each fold the numbers of the rows to learn from, and of the others.

        Args:
            X: anything with n rows.
            y: not looked at.
            groups: (n,) units, text or whole numbers.

        Raises:
            DataError: if a fold would have no rows.
        """
        units = _units(X, groups)
        for k in range(self.n_splits):
            mine = Fold(self.n_splits, k, self.random_state).keep(units)
            train, test = np.flatnonzero(~mine), np.flatnonzero(mine)
            if not (len(train) and len(test)):
                raise DataError(
                    f"fold {k} of {self.n_splits} has {len(test):,} of the {len(units):,} rows, "
                    "expected rows on both sides; take fewer folds, or another random_state"
                )
            yield train, test


class TimeFold(BaseCrossValidator):
    """Folds forward in time: each is learned from all rows before it.

    For logs whose logger learned, or whose users change. The rows are cut into `n_splits` + 1
    stretches of about equal size; fold k learns from the first k + 1 of them and is tested on the
    next. Rows of one time are in one stretch.

    Args:
        n_splits: number of folds, at least 1.

    The times are the metadata `time`. Without it the rows must be in order of time.

    >>> import numpy as np
    >>> [(len(train), len(test)) for train, test in TimeFold(3).split(np.arange(8))]
    [(2, 2), (4, 2), (6, 2)]
    """

    __metadata_request__split: ClassVar[dict[str, Any]] = {"time": True}

    def __init__(self, n_splits: int = 5) -> None:
        check_count("n_splits", n_splits, 1, "the number of folds")
        self.n_splits = n_splits

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: ARG002
        """Return the number of folds."""
        return self.n_splits

    def split(
        self,
        X: Any,
        y: Any = None,  # noqa: ARG002
        groups: Any = None,  # noqa: ARG002
        *,
        time: Any = None,
    ) -> Iterator[tuple[Rows, Rows]]:
        """Yield for each fold the numbers of the rows before it, and of its own.

        Args:
            X: anything with n rows.
            y: not looked at.
            groups: not looked at.
            time: (n,) times, dates or numbers; None: the order of the rows.

        Raises:
            DataError: if a stretch would have no rows, and for missing times.
        """
        times = _times(X, time)
        stretch = stretches(times, self.n_splits + 1)
        for k in range(1, self.n_splits + 1):
            train, test = np.flatnonzero(stretch < k), np.flatnonzero(stretch == k)
            if not (len(train) and len(test)):
                raise DataError(
                    f"stretch {k} of {self.n_splits + 1} has {len(test):,} of the {len(times):,} "
                    "rows, expected rows in each; take fewer folds"
                )
            yield train, test


def _units(X: Any, groups: Any) -> Rows:
    """Return the number of each row's unit; without units, of the row."""
    if groups is None:
        return np.arange(_rows(X))
    check_consistent_length(X, groups)
    return key_numbers(label_array(groups, "groups"), "groups", "unit")


def _times(X: Any, time: Any) -> npt.NDArray[Any]:
    """Return the times, (n,), which can be compared."""
    if time is None:
        return np.arange(_rows(X))
    check_consistent_length(X, time)
    times = np.asarray(column_or_1d(time))
    missing = times != times
    if times.dtype.kind not in "iufM":
        raise UsageError(f"time holds {times.dtype}, expected dates or numbers; convert it first")
    if missing.any():
        raise DataError(
            f"time is missing in {int(missing.sum()):,} rows, expected one in each; drop such rows"
        )
    return times


def _rows(X: Any) -> int:
    return len(X) if not hasattr(X, "shape") else int(X.shape[0])
