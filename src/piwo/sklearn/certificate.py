"""certify: a certificate for a whole fitted pipeline, on rows that no part of it has seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import certify as certify_policies
from piwo.errors import warn
from piwo.messages import Note
from piwo.sklearn.rows import Metadata, innermost, judged

__all__ = ["certify"]

_STANDARDIZED = 1e-6
"""How far a mean may be from 0 and a variance from 1: float32 rounds to about 1e-7."""


def certify(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    reward: Any,
    propensity: Any = None,
    propensities: Any = None,
    unit: Any = None,
    delta: float = 0.05,
    at_least: float | None = None,
    reward_range: tuple[float, float] | None = None,
    response_method: str = "predict_proba",
) -> Certificate:
    """Return the certificate of a fitted classifier, pipeline or search, on new rows.

    Answers: what is the policy that runs, everything before the classifier included, worth at
    least, and is it better than the logging policy? A certificate is valid for a policy that was
    made without the rows of the certificate. That is the whole pipeline: a scaler, an encoder or a
    search that was fitted to all rows, before they were split, has seen them. What has seen their
    contexts alone makes a small difference that no proof covers. What has seen their actions or
    rewards, such as a target encoder, can make a certificate wrong by any amount. So split first,
    fit the pipeline to one part, and give the other part to this function, as it was logged.

    Delta is that of one certificate: several models certified on the same rows, one call each, are
    certified together only at the sum of their deltas, and the best of them at no less. Choose the
    model before, or divide `delta` by the number of models.

    Two mistakes are recognized: rows that the classifier was learned from (an error), and columns
    that are standardized over both parts together, so that they were scaled before the split (a
    warning, and a note in the certificate).

    Args:
        estimator: fitted: an `OffPolicyClassifier`, or a pipeline or a search that ends in one; or
            any other classifier, of which nothing is known.
        X: (n, d) contexts, as `estimator.predict` takes them.
        y: (n,) logged actions. The split must not have looked at them: no `stratify=y`.
        reward: (n,) rewards of the logged actions.
        propensity: (n,) probability with which the logger took the action of each row.
        propensities: (n, K) probabilities of all actions; see `OffPolicyClassifier.fit`.
        unit: (n,) such as users, if rows of one unit depend on each other.
        delta: error probability of each bound.
        at_least: the least value that the policy must have; see `piwo.certify`.
        reward_range: the declared (lo, hi); None: that of the classifier, or (0, 1).
        response_method: of other classifiers; see `PolicyScorer`.

    Returns:
        A `piwo.Certificate`.

    Raises:
        UsageError: for rows that the classifier was learned from, and missing propensities.
        DataError: for rows that break a rule.

    Source: docs/theory.md, section "The mixture bound"; docs/scikit-learn.md.

    >>> import numpy as np
    >>> from piwo.sklearn import OffPolicyClassifier
    >>> rng = np.random.default_rng(0)
    >>> X, A, half = rng.normal(size=(800, 1)), rng.integers(0, 2, 800), np.full(800, 0.5)
    >>> R = (A == (X[:, 0] > 0)) * 1.0
    >>> old, new = slice(0, 400), slice(400, 800)
    >>> model = OffPolicyClassifier().fit(X[old], A[old], reward=R[old], propensity=half[old])
    >>> certify(model, X[new], A[new], reward=R[new], propensity=half[new]).certified
    True
    """
    given = Metadata(reward, propensity, propensities, unit)
    given.require("certify")
    log, policy = judged(estimator, X, y, given, reward_range, response_method)
    name = type(estimator).__name__
    made = certify_policies(log, {name: policy}, delta=delta, at_least=at_least)[name]
    caveat = _scaled_before(estimator, X)
    if caveat is None:
        return made
    warn(caveat)
    return replace(made, notes=(*made.notes, caveat))


def _scaled_before(estimator: Any, X: Any) -> Note | None:
    """Return a caveat if columns are standardized over old and new rows together, not by the old.

    Moments of both parts together that are those of a standardized column to six digits are no
    coincidence, unless the old rows are standardized by themselves.
    """
    ours, seen = innermost(estimator, X)
    if ours is None:
        return None
    before = ours.context_moments_
    matrix = np.asarray(seen, np.float64)
    now = np.stack([np.full_like(before[0], len(matrix)), matrix.mean(axis=0), matrix.var(axis=0)])
    # the pooled mean and variance of n + m rows
    rows = before[0] + now[0]
    mean = (before[0] * before[1] + now[0] * now[1]) / rows
    spread = before[0] * (before[2] + before[1] ** 2) + now[0] * (now[2] + now[1] ** 2)
    scaled = _standardized(mean, spread / rows - mean**2) & ~_standardized(before[1], before[2])
    count = int(scaled.sum())
    if not count:
        return None
    return Note(
        f"{count} of {len(scaled)} columns have mean 0 and variance 1 over the rows that were "
        "learned from and these rows together, so they were scaled on all rows before the split: "
        "the policy depends on these rows, and no proof covers that; put the scaler into the "
        "pipeline and split the rows first",
        kind="preprocessing",
    )


def _standardized(
    mean: npt.NDArray[np.float64], variance: npt.NDArray[np.float64]
) -> npt.NDArray[np.bool_]:
    """Return which columns have mean 0 and variance 1."""
    found: npt.NDArray[np.bool_] = (np.abs(mean) < _STANDARDIZED) & (
        np.abs(variance - 1.0) < _STANDARDIZED
    )
    return found
