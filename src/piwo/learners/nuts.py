"""Draws from a density by the no-U-turn sampler, with what tells whether to believe them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from piwo.engines.settings import current_progress
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats

__all__ = ["Chains", "Density", "draw_chains"]

Density: TypeAlias = Callable[[Floats], tuple[float, Floats]]
"""(D,) parameters -> log density up to a constant, and its gradient, (D,)."""

# Above this R-hat the chains tell different stories.
_MIXED = 1.05
# Seconds between two looks at the sampler: it hears Ctrl-C in between.
_PATIENCE = 0.1


@dataclass(frozen=True)
class Chains:
    """Draws of several chains, and what tells whether they are from the density.

    Diagnostics are rank-normalized R-hat and bulk effective sample size, the worst over all D
    coordinates. Source: Vehtari, Gelman, Simpson, Carpenter, Buerkner 2021 (arXiv 1903.08008).

    >>> Chains(np.zeros((2, 10, 1)), rhat=1.3, ess=3.0, divergences=0, gradients=90).doubts(100)[0]
    'the chains have not mixed (R-hat 1.3, expected at most 1.05)'
    """

    draws: Floats = field(repr=False)
    """(chains, draws, D), without the warm-up."""
    rhat: float
    """1 where all chains tell the same."""
    ess: float
    """How many independent draws these are worth."""
    divergences: int
    """Draws at which the density was too steep for the sampler."""
    gradients: int
    """How often the density was asked after the warm-up."""

    def doubts(self, wanted: int) -> tuple[str, ...]:
        """Return what speaks against taking the draws for `wanted` independent ones, in words."""
        found = []
        if not self.rhat <= _MIXED:
            found.append(
                f"the chains have not mixed (R-hat {self.rhat:.4g}, expected at most {_MIXED:g})"
            )
        if not self.ess >= wanted:
            found.append(
                f"the chains are worth {self.ess:.4g} independent draws, and {wanted} are wanted"
            )
        if self.divergences:
            found.append(
                f"{self.divergences} draws diverged: parts of the posterior may be missing"
            )
        return tuple(found)


def draw_chains(
    density: Density,
    *,
    size: int,
    chains: int,
    warmup: int,
    draws: int,
    seed: int,
    told: int = 1,
) -> Chains:
    """Return draws from a density; the same for a seed, however many cores there are.

    Chains start from standard normal places, far apart where the density is narrower, so that R-hat
    can tell, and run side by side on the cores. Ctrl-C ends them at once.

    Args:
        density: called from several threads at once; must not raise.
        size: D.
        chains: how many.
        warmup: steps of each that only tune the sampler, and are dropped.
        draws: further steps of each, which are returned.
        seed: of everything.
        told: rows that each step counts for where progress is reported.

    Raises:
        UsageError: where the extra is not installed.
    """
    sample, model_of = _nutpie()
    tell, steps = current_progress(), chains * (warmup + draws)

    def expand(place: Floats) -> dict[str, Floats]:
        if tell is not None:
            tell(told, told * steps)
        return {"place": place}

    model = model_of(
        ndim=size,
        make_logp_fn=lambda: density,
        make_expand_fn=lambda *_: expand,
        expanded_dtypes=[np.dtype(np.float64)],
        expanded_shapes=[(size,)],
        expanded_names=["place"],
        # each chain brings a number of its own
        make_initial_point_fn=lambda chain: np.random.default_rng([seed, 3, chain]).standard_normal(
            size
        ),
    )
    return _chains(
        _waited(
            lambda: sample(
                model,
                draws=draws,
                tune=warmup,
                chains=chains,
                cores=min(chains, os.cpu_count() or 1),
                seed=int(np.random.SeedSequence([seed, 2]).generate_state(1, np.uint64)[0]),
                progress_bar=False,
                save_warmup=False,
                blocking=False,
            )
        )
    )


def _nutpie() -> tuple[Any, Any]:
    try:
        from nutpie import sample
        from nutpie.compiled_pyfunc import from_pyfunc
    except ImportError:
        raise UsageError(
            "sampling needs nutpie, which is not installed; install it with pip install "
            "'piwo[sampler]', or use PACBayesLinear(), which needs no sampler"
        ) from None
    return sample, from_pyfunc


def _waited(begin: Callable[[], Any]) -> Any:
    """Return what a sampler that runs in the background has found; it is stopped where waiting ends otherwise."""
    from threadpoolctl import threadpool_limits

    # the chains are the parallelism; a BLAS that starts its own threads underneath would fight them
    with threadpool_limits(1, "blas"):
        running = begin()
        try:
            while True:
                try:
                    return running.wait(timeout=_PATIENCE)
                except TimeoutError:
                    continue
                except RuntimeError as cause:
                    if "initialization" not in str(cause):
                        raise
                    raise DataError(
                        "the chains found no place to start from; look for huge numbers"
                    ) from None
        except BaseException:
            running.cancel()
            raise


def _chains(found: Any) -> Chains:
    import arviz

    rhat: Any = arviz.rhat
    ess: Any = arviz.ess
    draws = np.asarray(found.posterior["place"].values, np.float64)
    each = [draws[:, :, k] for k in range(draws.shape[2])]
    # chains that never moved have no variance, and neither measure
    with np.errstate(invalid="ignore", divide="ignore"):
        worst, least = np.max([rhat(one) for one in each]), np.min([ess(one) for one in each])
    stats = found.sample_stats
    diverged, steps = int(stats["diverging"].values.sum()), int(stats["n_steps"].values.sum())
    return Chains(draws, float(worst), float(least), diverged, steps)
