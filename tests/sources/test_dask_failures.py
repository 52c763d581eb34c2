"""What the code behind a Dask DataFrame raises is one line, wherever it is met."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import piwo
from piwo.errors import DataError

pytestmark = pytest.mark.clusters

dd = pytest.importorskip("dask.dataframe", reason="needs piwo[dask]")


def failing(part: Any) -> Any:
    return 1 / 0


def of_many_lines(part: Any) -> Any:
    raise ValueError("one\nline\nmore")


def without_rewards(part: Any) -> Any:
    return part.drop(columns="reward")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (failing, r"ZeroDivisionError: division by zero; "),
        (of_many_lines, "ValueError: one line more; "),
        (without_rewards, r"ValueError: The columns .* Missing: \['reward'\]; "),
    ],
)
@pytest.mark.parametrize("first", [True, False], ids=["first partition", "another"])
def test_what_a_partition_raises_is_one_line(
    code: Callable[[Any], Any], told: str, first: bool
) -> None:
    rows = pd.DataFrame(
        {"action": ["a", "b"] * 20, "reward": 1.0, "propensity": 0.5, "id": range(40)}
    )
    frame = dd.from_pandas(rows, npartitions=4)
    bad = frame.map_partitions(
        lambda x: code(x) if first or x.id.min() > 0 else x, meta=frame._meta
    )
    with pytest.raises(
        DataError, match=f"^Dask could not read the Dask DataFrame: {told}compute its"
    ) as caught:
        piwo.evaluate(piwo.read(bad, actions=["a", "b"]), piwo.policies.Uniform(["a", "b"]))
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ArithmeticError | ValueError)
