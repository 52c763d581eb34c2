"""Comparisons by unit against a twin in numpy that averages the rows of each unit first.

Rows of a unit are spread over files in random order, and units have from one to many rows; rows are
chosen by a condition, and the policies are arrays of the chosen rows.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo import bounds
from piwo.intervals.provenance import learned_from
from piwo.reductions.bets import bet_sums

ROWS, UNITS, FILES, ACTIONS, DELTA = 30_000, 3_000, 4, ["x", "y", "z"], 0.1
Floats = npt.NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Case:
    """The log on disk, and the chosen rows in the order of the files."""

    folder: Path
    log: piwo.Log
    unit: npt.NDArray[np.int64]
    reward: Floats
    propensity: Floats
    action: npt.NDArray[np.int64]
    vectors: Floats
    """(n, 3) pi of one policy."""
    taken: Floats
    """(n,) pi(A | X) of another."""
    saved: Any
    """The logging policy, from a file."""

    def w(self, pi: Floats) -> Floats:
        return pi / self.propensity

    def mean(self, y: Floats) -> Floats:
        """The means of y over the rows of each unit, by a plain loop over sorted rows."""
        order = np.argsort(self.unit, kind="stable")
        edges = np.flatnonzero(np.diff(self.unit[order])) + 1
        return np.array([part.mean() for part in np.split(y[order], edges)])


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    rng = np.random.default_rng(14)
    folder = tmp_path_factory.mktemp("units")
    # every unit has a row, some have hundreds
    unit = np.concatenate([np.arange(UNITS), rng.geometric(0.002, ROWS - UNITS) % UNITS])
    unit = rng.permutation(unit)
    mu = 0.15 + 0.55 * rng.dirichlet(np.ones(3), ROWS)
    action = (rng.random((ROWS, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(max=2)
    liked = rng.integers(0, 3, UNITS)[unit]
    reward = (rng.random(ROWS) < 0.2 + 0.5 * (action == liked)) * 1.0
    day = rng.integers(0, 10, ROWS)
    table = pa.table(
        {
            "user": np.char.add("u", unit.astype(str)),
            "event": rng.permutation(ROWS),
            "a": np.array(ACTIONS)[action],
            "r": reward,
            "p": mu[np.arange(ROWS), action],
            "day": day,
        }
    )
    size = -(-ROWS // FILES)
    for i in range(FILES):
        part = table.slice(i * size, size)
        pq.write_table(part, folder / f"{i}.parquet", row_group_size=3_000)
    log = piwo.read(
        str(folder / "*.parquet"),
        action="a",
        reward="r",
        propensity="p",
        unit="user",
        key="event",
        actions=ACTIONS,
        where="day <> 3",
    )
    kept = day != 3
    learned_from(log, piwo.policies.Logging(ACTIONS)).save(folder / "logger.piwo")
    return Case(
        folder=folder,
        log=log,
        unit=unit[kept],
        reward=reward[kept],
        propensity=mu[np.arange(ROWS), action][kept],
        action=action[kept],
        vectors=rng.dirichlet(np.full(3, 0.5), ROWS)[kept],
        taken=rng.dirichlet(np.full(3, 0.3), ROWS)[np.arange(ROWS), action][kept],
        saved=piwo.load(folder / "logger.piwo"),
    )


def policies(case: Case) -> dict[str, tuple[Any, Floats]]:
    """Name -> policy as it is given, and pi(A | X) of its rows, (n,)."""
    rows = np.arange(len(case.unit))
    constant = (case.action == 1) * 1.0
    return {
        "vectors": (case.vectors, case.vectors[rows, case.action]),
        "taken": (case.taken, case.taken),
        "constant": (piwo.policies.Constant("y", ACTIONS), constant),
    }


def test_values_weights_and_hoeffding_ends_are_those_of_means_of_units(case: Case) -> None:
    named = policies(case)
    most = float(1 / case.propensity.min())
    found = piwo.compare(
        case.log,
        {name: given for name, (given, _) in named.items()},
        interval=f"hoeffding:{most!r}",
        baseline=case.saved,
        delta=DELTA,
    )
    units = len(set(case.unit.tolist()))
    for name, (_, pi) in named.items():
        made, w = found[name], case.w(pi)
        # one row has one weight, and each unit counts the same
        value, loss = case.mean(w * case.reward), case.mean(w * (1 - case.reward))
        weight, better = case.mean(w), case.mean(w * case.reward + 1 - case.reward)
        assert (made.rows, made.units, made.unit) == (len(w), units, "user")
        assert made.value == pytest.approx(value.mean(), rel=1e-11)
        assert made.standard_error == pytest.approx(value.std(ddof=1) / units**0.5, rel=1e-9)
        assert made.mean_weight == pytest.approx(weight.mean(), rel=1e-11)
        assert made.ess == pytest.approx(weight.sum() ** 2 / (weight**2).sum(), rel=1e-11)
        z = (weight.mean() - 1) / (weight.std() / units**0.5)
        assert made.mean_weight_z == pytest.approx(z, rel=1e-6)
        assert made.logging_value == pytest.approx(case.mean(case.reward).mean(), rel=1e-11)
        # mean - b sqrt(log(2 N / delta) / (2 n)), on either side, N = 3 policies
        penalty = math.log(2 * 3 / DELTA)
        half = most * math.sqrt(penalty / (2 * units))
        assert made.lower_raw == pytest.approx(value.mean() - half, rel=1e-9)
        assert made.upper_raw == pytest.approx(1 - (loss.mean() - half), rel=1e-9)
        gain = bounds.improvement_lower(bet_sums(better), units, math.log(3 / DELTA))
        assert made.improvement_lower == pytest.approx(gain, rel=1e-9, abs=1e-12)
        # the saved logger of these rows is their logger
        assert made.baseline is None
        assert made.simultaneous == 3


def test_other_closed_forms_and_a_row_wise_baseline(case: Case) -> None:
    """Normal and gamma-exponential ends, and the difference of two arrays."""
    named, rows = policies(case), np.arange(len(case.unit))
    pi = named["vectors"][1]
    value = case.mean(case.w(pi) * case.reward)
    n, penalty = len(value), math.log(2 / DELTA)
    other = piwo.evaluate(
        case.log,
        case.vectors,
        baseline=case.vectors[:, ::-1],
        interval="gamma-exponential",
        delta=DELTA,
    )
    lower = bounds.gamma_exponential_lower(value.sum(), (value**2).sum(), n, penalty)
    assert other.lower_raw == pytest.approx(lower, rel=1e-9)
    # Y = [(pi - pi')_+ R + (pi' - pi)_+ (1 - R)]/mu + 1 - sum_a (pi' - pi)_+
    d = case.vectors - case.vectors[:, ::-1]
    own = d[rows, case.action]
    y = (own.clip(0) * case.reward + (-own).clip(0) * (1 - case.reward)) / case.propensity
    y += 1 - (-d).clip(0).sum(axis=1)
    gain = bounds.improvement_lower(bet_sums(case.mean(y)), n, math.log(1 / DELTA))
    assert other.improvement_lower == pytest.approx(gain, rel=1e-9, abs=1e-12)
    reverse = case.w(case.vectors[:, ::-1][rows, case.action]) * case.reward
    assert other.baseline_value == pytest.approx(case.mean(reverse).mean(), rel=1e-11)
    normal = piwo.evaluate(case.log, case.taken, interval="normal", delta=DELTA)
    value = case.mean(case.w(case.taken) * case.reward)
    half = 1.6448536269514722 * value.std(ddof=1) / n**0.5
    assert normal.lower_raw == pytest.approx(value.mean() - half, rel=1e-9)
    assert normal.upper_raw == pytest.approx(value.mean() + half, rel=1e-9)
    # a mean over rows is another number
    assert abs((case.w(case.taken) * case.reward).mean() - normal.value) > 0.001


def test_certificates_on_the_same_rows(case: Case) -> None:
    policy = piwo.policies.Constant("y", ACTIONS)
    made = piwo.certify(
        case.log, {0: policy}, baseline=case.saved, delta=DELTA, interval="mixture"
    )[0]
    w = case.w((case.action == 1) * 1.0)
    value, n = case.mean(w * case.reward), len(set(case.unit.tolist()))
    lower = bounds.value_lower(bet_sums(value), n, math.log(1 / DELTA))
    assert made.value_lower == pytest.approx(lower, rel=1e-9)
    gain = bet_sums(case.mean(w * case.reward + 1 - case.reward))
    expected = bounds.improvement_lower(gain, n, math.log(1 / DELTA))
    assert made.improvement_lower == pytest.approx(expected, rel=1e-9, abs=1e-12)
    weight = case.mean(w)
    assert made.ess == pytest.approx(weight.sum() ** 2 / (weight**2).sum(), rel=1e-11)
    assert (made.rows, made.units) == (len(w), n)


def test_the_saved_logger_of_chosen_rows_is_not_that_of_all(case: Case) -> None:
    other = piwo.read(
        f"{case.folder}/*.parquet",
        action="a",
        reward="r",
        propensity="p",
        unit="user",
        actions=ACTIONS,
    )
    with pytest.raises(piwo.UsageError, match="stands for the logging policy of"):
        piwo.evaluate(other, piwo.policies.Uniform(ACTIONS), baseline=case.saved)
