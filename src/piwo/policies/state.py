"""The content of a policy, in the parts that a file holds."""

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
    """The parts of one policy: everything that its constructor needs."""

    actions: Actions | None = None
    features: Features | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Numbers, texts and lists of them: JSON."""
    arrays: Mapping[str, npt.NDArray[np.float64]] = field(default_factory=dict)
    """float64 arrays by name."""
    parts: tuple[Any, ...] = ()
    """Inner policies. (`Policy` itself imports this file.)"""
    model: Any = None
    """A fitted scikit-learn model."""

    def array(self, name: str, *shape: int) -> npt.NDArray[np.float64]:
        """Return an array of the given shape. A negative length allows any.

        Raises:
            ValueError: if it has another shape; `load` adds the name of the file.
        """
        found = self.arrays[name]
        if found.ndim != len(shape) or any(
            have != want for have, want in zip(found.shape, shape, strict=True) if want >= 0
        ):
            wanted = ", ".join("n" if x < 0 else str(x) for x in shape)
            raise ValueError(f"array {name!r} has shape {found.shape}, expected ({wanted})")
        return found

    def known(self) -> Actions:
        """Return the actions of a policy that needs them.

        Raises:
            ValueError: if there are none.
        """
        if self.actions is None:
            raise ValueError("the action list is missing")
        return self.actions
