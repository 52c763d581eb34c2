"""Draws from a density by the no-U-turn sampler, with diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from piwo.engines.cores import cores
from piwo.engines.native_threads import native_threads
from piwo.engines.settings import current_progress
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats

__all__ = ["Chains", "Density", "draw_chains"]

Density: TypeAlias = Callable[[Floats], tuple[float, Floats]]
"""(D,) parameters -> log density up to a constant, and its gradient, (D,)."""

# Above this R-hat the chains disagree.
_MIXED = 1.05
# Seconds between two checks of the sampler; Ctrl-C is handled in between.
_PATIENCE = 0.1


@dataclass(frozen=True)
class Chains:
    """Draws of several chains, with diagnostics of whether they are from the density.

    Diagnostics are rank-normalized R-hat and bulk effective sample size, the worst over all D
    coordinates. Source: Vehtari, Gelman, Simpson, Carpenter, Buerkner 2021 (arXiv 1903.08008).

    >>> Chains(np.zeros((2, 10, 1)), rhat=1.3, ess=3.0, divergences=0, gradients=90).caveats(100)[0]
    'the chains have not mixed (R-hat 1.3, expected at most 1.05)'
    """

    draws: Floats = field(repr=False)
    """(chains, draws, D), without the warm-up."""
    rhat: float
    """1 if all chains agree."""
    ess: float
    """The effective number of independent draws."""
    divergences: int
    """Draws at which the density was too steep for the sampler."""
    gradients: int
    """How often the density was evaluated after the warm-up."""

    def caveats(self, wanted: int) -> tuple[str, ...]:
        """Return the reasons, in words, not to treat the draws as `wanted` independent ones."""
        found = []
        if not self.rhat <= _MIXED:
            found.append(
                f"the chains have not mixed (R-hat {self.rhat:.4g}, expected at most {_MIXED:g})"
            )
        if not self.ess >= wanted:
            found.append(
                f"the chains are worth {self.ess:.4g} independent draws, {wanted} were asked for"
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
    rows: int = 1,
) -> Chains:
    """Return draws from a density; the same for a seed, however many cores there are.

    Chains start from standard normal points, which are far apart if the density is narrower, so
    that R-hat can detect disagreement. They run in parallel on the cores. Ctrl-C ends them at once.

    Args:
        density: called from several threads at once; must not raise.
        size: D.
        chains: how many.
        warmup: steps of each that only tune the sampler, and are dropped.
        draws: further steps of each, which are returned.
        seed: of starts and chains.
        rows: rows that each step counts for when progress is reported.

    Raises:
        UsageError: if the extra is not installed.
    """
    sample, model_of = _nutpie()
    report, steps = current_progress(), chains * (warmup + draws)

    def expand(place: Floats) -> dict[str, Floats]:
        # called once for each step
        if report is not None:
            report(rows, rows * steps)
        return {"place": place}

    def start(chain: int) -> Floats:
        # each chain has a stream of its own
        return np.random.default_rng([seed, 3, chain]).standard_normal(size)

    model = model_of(
        ndim=size,
        make_logp_fn=lambda: density,
        make_expand_fn=lambda *_: expand,
        expanded_dtypes=[np.dtype(np.float64)],
        expanded_shapes=[(size,)],
        expanded_names=["place"],
        make_initial_point_fn=start,
    )

    def begin() -> Any:
        return sample(
            model,
            draws=draws,
            tune=warmup,
            chains=chains,
            cores=min(chains, cores()),
            seed=int(np.random.SeedSequence([seed, 2]).generate_state(1, np.uint64)[0]),
            progress_bar=False,
            save_warmup=False,
            blocking=False,
        )

    return _chains(_waited(begin))


def _nutpie() -> tuple[Any, Any]:
    try:
        from nutpie import sample
        from nutpie.compiled_pyfunc import from_pyfunc
    except ImportError:
        raise UsageError(
            "sampling needs nutpie, which is not installed; install it with pip "
            "install 'piwo[sampler]', or use PACBayesLinear(), which needs no sampler"
        ) from None
    return sample, from_pyfunc


def _waited(begin: Callable[[], Any]) -> Any:
    """Return the result of a sampler that runs in the background; stop it on any interruption."""
    # the chains already use all cores; threads of BLAS would compete with them
    with native_threads(1, "blas"):
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
                        "the chains found no starting point with a finite density; "
                        "look for huge numbers"
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
    # chains that never moved have no variance, and both measures are not numbers
    with np.errstate(invalid="ignore", divide="ignore"):
        worst = np.max([rhat(one) for one in each])
        least = np.min([ess(one) for one in each])
    stats = found.sample_stats
    return Chains(
        draws,
        rhat=float(worst),
        ess=float(least),
        divergences=int(stats["diverging"].values.sum()),
        gradients=int(stats["n_steps"].values.sum()),
    )
