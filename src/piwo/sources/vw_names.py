"""Labels of the action lines of Vowpal Wabbit's text: the value of one feature of each."""

from __future__ import annotations

from collections.abc import Sequence

from piwo.errors import UsageError
from piwo.messages import argument
from piwo.sources.lines import BrokenLineError
from piwo.sources.vw_features import FeatureColumns, Places

__all__ = ["NameOfLine"]

_LARGEST = 2**53
"""Below it float64 has every whole number."""


class NameOfLine:
    """Finds what names an action in the features of its line."""

    def __init__(self, items_label: str, places: Places, hash_size: int) -> None:
        self._features = FeatureColumns((items_label,), places, hash_size)
        self._where = f"{items_label!r} ({argument('items_label')}), which names actions"
        if self._features.typed:
            raise UsageError(
                f"{argument('items_label')} is {items_label!r}, a whole namespace, expected one "
                "feature, whose value names the action"
            )
        self.whole = True
        """Whether all names are whole numbers."""

    def of(self, lines: Sequence[str], owners: Sequence[int] = ()) -> list[str]:
        """Return the names of the actions of a decision.

        Args:
            lines: of the actions.
            owners: the slots of these (slates); empty: they are not of slots.

        Raises:
            BrokenLineError: for an action without a name, or two of one slot with the same.
        """
        found: list[str] = []
        for line in lines:
            (value,) = self._features.row_of((line,))
            if value is None:
                raise BrokenLineError(f"has an action line without {self._where},")
            if not isinstance(value, str):
                # larger ones are not exact
                if not (value.is_integer() and abs(value) < _LARGEST):
                    raise BrokenLineError(
                        f"has an action line with neither text nor a whole number in {self._where},"
                    )
                value = str(int(value))
            else:
                self.whole = False
            found.append(value)
        # an action of slates may be one of several slots
        if len(set(zip(found, owners or found, strict=True))) < len(found):
            raise BrokenLineError(f"has two action lines with the same {self._where},")
        return found
