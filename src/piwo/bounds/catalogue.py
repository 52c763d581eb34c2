"""The catalogue of interval methods: what each promises, what it needs, and where it comes from."""

from dataclasses import dataclass

from piwo.bounds.interval import Guarantee

__all__ = ["CatalogueEntry", "catalogue"]


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """One interval method.

    >>> catalogue()[0].guarantee
    'finite-sample'
    """

    name: str
    """As `piwo.evaluate(interval=...)` knows it."""
    guarantee: Guarantee
    needs: str
    """Beyond a log and a policy."""
    upper_end: str
    """When it has an upper end."""
    source: str


_LOSSES = "rewards with an upper end"
_OVERLAP = "always; needs overlap"
_ENTRIES = (
    ("mixture", "finite-sample", "nothing", _LOSSES, 'docs/theory.md, "The mixture bound"'),
    (
        "mixture-cv", "finite-sample", "the probability of every action, of logger and policy", _LOSSES,
        'docs/theory.md, "Control variates"',
    ),
    ("ix", "finite-sample", "a gamma fixed beforehand, rewards in a range", _LOSSES, "arXiv 2309.15771, Lemma 1"),
    ("ls", "finite-sample", "a lambda fixed beforehand", _LOSSES, "arXiv 2405.14335, Cor. 5"),
    (
        "score", "finite-sample", "a pessimistic score as estimator, its parameter fixed beforehand", _LOSSES,
        'docs/theory.md, "Admissible scores"',
    ),
    (
        "hoeffding", "finite-sample", "the largest weight that can occur (hoeffding:20), rewards in a range", _LOSSES,
        "Hoeffding 1963, Theorem 2",
    ),
    (
        "empirical-bernstein", "finite-sample",
        "the largest weight that can occur (empirical-bernstein:20), rewards in a range", _LOSSES,
        "arXiv 0907.3740, Theorem 4",
    ),
    (
        "clopper-pearson", "finite-sample", "rewards of 0 and 1, weights of 0 and one other number by design", _LOSSES,
        "Clopper and Pearson 1934",
    ),
    ("gamma-exponential", "finite-sample", "nothing", _LOSSES, "arXiv 1810.08240, Prop. 9"),
    (
        "eslb", "finite-sample",
        "the probability of every action, of logger and policy; independent rows, rewards in a range", _LOSSES,
        "arXiv 2006.10460, Theorem 1",
    ),
    ("cressie-read", "asymptotic", "overlap", _OVERLAP, "arXiv 1906.03323; Owen 1991"),
    (
        "empirical-likelihood", "asymptotic",
        "overlap, rewards in a range; narrower with the largest weight (empirical-likelihood:20)", _OVERLAP,
        "arXiv 1906.03323, Section 4",
    ),
    ("normal", "asymptotic", "overlap", _OVERLAP, "the central limit theorem"),
    ("bootstrap", "asymptotic", "overlap; a second pass", _OVERLAP, "Efron and Tibshirani 1993, chapter 13"),
)  # fmt: skip


def catalogue() -> tuple[CatalogueEntry, ...]:
    """Return every interval method by name, those that hold at every n first.

    >>> [one.name for one in catalogue() if one.guarantee == "asymptotic"]
    ['cressie-read', 'empirical-likelihood', 'normal', 'bootstrap']
    """
    return tuple(CatalogueEntry(*entry) for entry in _ENTRIES)  # type: ignore[arg-type]
