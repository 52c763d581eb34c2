"""What a policy is made of, taken apart so that a file can hold it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.logs.actions import Actions
from piwo.logs.features import Features

__all__ = ["State"]


@dataclass(frozen=True)
class State:
    """The parts of one policy: everything its constructor needs, and nothing else."""

    actions: Actions | None = None
    features: Features | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, texts and lists of them, as JSON has them."""
    arrays: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    """float64 arrays by name."""
    parts: tuple[Any, ...] = ()
    """Policies inside this one. (Policies are defined upon states, so their type has no name
    here.)"""
    model: Any = None
    """A fitted scikit-learn model."""

    def array(self, name: str, *shape: int) -> npt.NDArray[np.float64]:
        """Return an array, its shape checked. A negative length stands for any.

        Raises:
            ValueError: where the shape is another; `load` says which file.
        """
        found = self.arrays[name]
        if found.ndim != len(shape) or any(
            have != want for have, want in zip(found.shape, shape, strict=True) if want >= 0
        ):
            wanted = ", ".join("n" if x < 0 else str(x) for x in shape)
            raise ValueError(f"array {name!r} has shape {found.shape}, expected ({wanted})")
        return found

    def known(self) -> Actions:
        """Return the actions of a policy that cannot be without.

        Raises:
            ValueError: where there are none.
        """
        if self.actions is None:
            raise ValueError("the action list is missing")
        return self.actions
