"""The figure of a result, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from piwo.certificates import RegretCertificate
from piwo.checks import shown
from piwo.errors import UsageError
from piwo.evaluation import (
    Comparison,
    CoverageEstimate,
    Evaluation,
    GammaPath,
    Look,
    Monitor,
    Selection,
    Watch,
    WatchLook,
)
from piwo.health import Health
from piwo.messages import argument
from piwo.plots.action_mix import action_mix
from piwo.plots.calibration import calibration
from piwo.plots.forest import forest
from piwo.plots.histogram import weights
from piwo.plots.paths import coverage, gamma_path, monitor, watched
from piwo.plots.regret import regret
from piwo.plots.style import altair, check_words

__all__ = ["figure"]


def figure(result: Any, *, reward: str | None = None) -> Any:
    """Return the figure that suits a result. What does it look like?

    The functions that draw the figures give others of the same results:

    - an evaluation, a comparison, a selection, or several evaluations: `forest`; an evaluation by
      segments: `action_mix`;
    - the health of a log: `weights` if it was checked for a policy, else (for the uniform policy)
      `calibration`;
    - a path over gamma: `gamma_path`; estimates of coverage: `coverage`;
    - looks of a monitor, or a monitor: `monitor`; a watch, or its looks: the same, a panel a
      policy;
    - a regret certificate: `regret`.

    Args:
        result: what a function of piwo returned, or several of one kind.
        reward: what is earned, in words, for axes of values; None: "reward".

    Returns:
        An Altair chart; its data have the numbers of the result.

    Raises:
        UsageError: for what has no figure, for `reward` that is no text or has no axis, and if
            altair is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> found = piwo.evaluate(log, piwo.policies.Constant("a", log.actions))
    >>> piwo.plots.figure(found, reward="clicks").to_dict()["title"]["text"]
    'What a policy is worth'
    """
    # Without altair no result has a figure: this comes first.
    altair()
    if reward is not None:
        check_words(reward)
    draw = _OF_ONE.get(type(result))
    if draw is None and isinstance(result, Mapping):
        result = list(result.values())
    if draw is None and isinstance(result, Iterable) and not isinstance(result, str):
        result = list(result)
        kinds = {type(one) for one in result}
        draw = _OF_MANY.get(kinds.pop()) if len(kinds) == 1 else None
    if draw is None:
        raise UsageError(
            f"{argument('result')} is {shown(result)}, which has no figure; expected what "
            "piwo.evaluate, compare, select, check, regret_certificate or evaluation.coverage "
            "returned, a watch, or the looks of a monitor or a watch"
        )
    without = draw in (_of_health, _coverage) or (draw is _of_evaluation and result.segments)
    if reward is not None and without:
        raise UsageError(
            f"{argument('reward')} is {shown(reward)}, and this figure has no axis of rewards; "
            "leave it out"
        )
    return draw(result, reward or "reward")


def _of_evaluation(one: Evaluation, reward: str) -> Any:
    if one.segments:
        return action_mix(one)
    return forest(one, reward=reward)


def _of_selection(selection: Selection, reward: str) -> Any:
    return forest(selection.evaluations, reward=reward)


def _of_health(health: Health, _reward: str) -> Any:
    # The uniform policy is what is checked without a policy.
    if health.policy == "uniform" or health.calibration:
        return calibration(health)
    return weights(health)


def _of_monitor(one: Monitor, reward: str) -> Any:
    return monitor([one.look()], reward=reward)


def _forest(result: Any, reward: str) -> Any:
    return forest(result, reward=reward)


def _gamma_path(path: GammaPath, reward: str) -> Any:
    return gamma_path(path, reward=reward)


def _coverage(estimates: Any, _reward: str) -> Any:
    return coverage(estimates)


def _look(look: Look, reward: str) -> Any:
    return monitor([look], reward=reward)


def _looks(looks: list[Look], reward: str) -> Any:
    return monitor(looks, reward=reward)


def _watch(watch: Watch | list[WatchLook], reward: str) -> Any:
    return watched(watch, reward=reward)


def _watch_look(look: WatchLook, reward: str) -> Any:
    return watched([look], reward=reward)


def _regret(certificate: RegretCertificate, reward: str) -> Any:
    return regret(certificate, reward=reward)


_OF_ONE: Mapping[type, Callable[[Any, str], Any]] = {
    Comparison: _forest,
    CoverageEstimate: _coverage,
    Evaluation: _of_evaluation,
    GammaPath: _gamma_path,
    Health: _of_health,
    Look: _look,
    Monitor: _of_monitor,
    RegretCertificate: _regret,
    Selection: _of_selection,
    Watch: _watch,
    WatchLook: _watch_look,
}
_OF_MANY: Mapping[type, Callable[[Any, str], Any]] = {
    CoverageEstimate: _coverage,
    Evaluation: _forest,
    Look: _looks,
    WatchLook: _watch,
}
