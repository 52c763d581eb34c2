"""Bandits with known values: made from labeled data, or small and hard ones to test intervals."""

from piwo.simulate.bandits import Bandit, Cells, adversarial_bandits
from piwo.simulate.coverage import Coverage
from piwo.simulate.items import ItemBandit
from piwo.simulate.supervised import ClassificationBandit

__all__ = [
    "Bandit",
    "Cells",
    "ClassificationBandit",
    "Coverage",
    "ItemBandit",
    "adversarial_bandits",
]
