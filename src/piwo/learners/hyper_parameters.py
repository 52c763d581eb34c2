"""How the hyper-parameter of a score gets its value, or its values, before anything is learned."""

from __future__ import annotations

from dataclasses import replace

from piwo import bounds
from piwo.errors import DataError
from piwo.estimators.forward_model import forward_model
from piwo.logs.log import Log
from piwo.oracles import Oracle
from piwo.scores import Score

__all__ = [
    "bet_of",
    "gamma_grid",
    "posterior_grid",
    "posterior_rule",
    "posterior_score",
    "settle",
    "settle_variants",
    "with_fitted_model",
]


def with_fitted_model(score: Score, log: Log) -> tuple[Score, str]:
    """Return a score with the reward model that it asks for, fitted to a log, and that in words.

    Each row's predictions use earlier rows alone, so the score's own lower bound is valid on these
    rows too.

    >>> from piwo.scores import DoublyRobustLS
    >>> log = Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    >>> with_fitted_model(DoublyRobustLS(0.1, q="forward"), log)[0].q.coef.shape
    (1, 2, 1)
    """
    if not score.wants_model:
        return score, ""
    fitted = score.with_model(forward_model(log))
    return fitted, "; q fitted forward, for each row on earlier training rows"


def settle(score: Score, oracle: Oracle, log: Log, delta: float) -> tuple[list[Score], str]:
    """Return the scores with numbers as hyper-parameters, and how those were chosen, in words.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    >>> both = piwo.oracles.Exhaustive(
    ...     [piwo.policies.Constant(x, log.actions) for x in log.actions]
    ... )
    >>> settle(piwo.IX(), both, log, 0.05)[1]
    'gamma = sqrt(log(2|Pi|/delta)/n), the theory for a finite class'
    """
    if not oracle.uses_score:
        return [score], f"the {oracle.name} oracle uses no score"
    asked, name = score.asked, score.parameter
    if asked is None:
        return [score], "the score has no hyper-parameter"
    if isinstance(asked, tuple):
        scores = [score.at(value) for value in asked]
        return scores, f"chosen by certificate among {len(asked)} values of {name}"
    if asked != "auto":
        return [score], f"{name} as given"
    size = oracle.log_class_size()
    if size is not None:
        # gamma = sqrt(log(2|Pi|/delta) / n)
        gamma, formula = bounds.gamma_auto(len(log), size, delta), "sqrt(log(2|Pi|/delta)/n)"
        source = "the theory for a finite class"
        if not score.admissible:
            source = "the same as for IX, by analogy: there is no theory for this score"
    else:
        # for linear policies gamma = sqrt(d / n)
        assert log.features is not None
        if log.features.width == 0:
            raise DataError(
                f"the context of {log.name} has no numbers to learn from, as its lists are empty "
                "in the first row; give lists of one length, or name other columns"
            )
        gamma, formula = bounds.gamma_linear(len(log), log.features.width), "sqrt(d/n)"
        source = "what the paper uses with IX and linear policies"
    return [score.at_gamma(gamma)], f"{name} = {_in_words(score, formula)}, {source}"


def settle_variants(
    score: Score, oracle: Oracle, log: Log, delta: float
) -> tuple[list[Score], str]:
    """Return what `settle` does, with each score in all of its variants."""
    scores, rule = settle(score, oracle, log, delta)
    each: list[Score] = []
    for one in scores:
        each += one.variants()
    settings = len(each) // len(scores)
    if settings > 1:
        rule = f"{rule}; chosen by certificate among {settings} settings of {score.label}"
    return each, rule


def bet_of(score: Score) -> float:
    """Return the bet size lambda of a pessimistic score.

    >>> from piwo.scores import IX
    >>> bet_of(IX(0.1))
    0.2
    """
    bet = score.bet
    assert bet is not None
    return bet


def gamma_grid(score: Score, n: int, log_class_size: float, delta: float) -> bounds.GammaGrid:
    """Return the grid of gammas that theory has for a score, see `piwo.bounds.gamma_grid_ls`.

    >>> from piwo.scores import IX, LSLinear
    >>> [gamma_grid(score, 10_000, 0.0, 0.05).largest for score in (IX(), LSLinear())]
    [1.0, 16.0]
    """
    if score.small_bets:
        made = bounds.gamma_grid_ix
    else:
        made = bounds.gamma_grid_ls
    return made(n, log_class_size, delta)


def posterior_grid(
    score: Score, n: int, delta: float
) -> tuple[tuple[Score, ...], bounds.GammaGrid]:
    """Return the scores to certify a posterior with, and their grid, which depends on n alone.

    >>> from piwo.scores import LSLinear
    >>> scores, grid = posterior_grid(LSLinear(0.1), 1000, 0.05)
    >>> grid.gammas, len(posterior_grid(LSLinear(), 1000, 0.05)[0])
    ((0.05,), 12)
    """
    grid = gamma_grid(score, n, 0.0, delta)
    if score.asked == "auto":
        # too few rows for the theorem: the most pessimistic score alone
        gammas = grid.gammas or (grid.largest,)
        return tuple(score.at_gamma(gamma) for gamma in gammas), grid
    if isinstance(score.asked, tuple):
        asked = score.asked
    else:
        asked = (score.number,)
    scores = [score.at(value) for value in sorted(asked, reverse=True)]
    # gamma = lambda / 2
    given = tuple(bet_of(score) / 2.0 for score in scores)
    # one statement for each gamma, half of delta for the lower bounds
    penalty = bounds.log_inv_delta(delta, statements=2 * len(scores))
    return tuple(scores), replace(grid, gammas=given, penalty=penalty, largest=given[0])


def posterior_score(score: Score, log: Log) -> Score:
    """Return the score to fit a posterior over linear policies with: the first of several.

    >>> from piwo.scores import LSLinear
    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[0.0]] * 100, action=[0] * 100, reward=[1] * 100, propensity=[1.0] * 100
    ... )
    >>> posterior_score(LSLinear(), log)
    LSLinear(lam=0.2)
    """
    if score.asked == "auto":
        # for linear policies gamma = sqrt(d / n)
        assert log.features is not None
        return score.at_gamma(bounds.gamma_linear(len(log), log.features.width))
    if isinstance(score.asked, tuple):
        return score.at(score.asked[0])
    return score


def posterior_rule(score: Score) -> str:
    """Return how the hyper-parameter of `posterior_score` was chosen, in words.

    >>> from piwo.scores import LSLinear
    >>> posterior_rule(LSLinear())
    'lam = 2 sqrt(d/n)'
    """
    if score.asked == "auto":
        return f"{score.parameter} = {_in_words(score, 'sqrt(d/n)')}"
    return f"{score.parameter} as given"


def _in_words(score: Score, gamma: str) -> str:
    """Return the formula of the hyper-parameter, from that of gamma."""
    return score.gamma_scale.words.format(gamma)
