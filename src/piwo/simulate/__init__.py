"""Bandits whose true values are known: labeled data turned into one, and small hard ones to test with."""

from piwo.simulate.bandits import Bandit, Cells, adversarial_bandits
from piwo.simulate.coverage import Coverage
from piwo.simulate.supervised import ClassificationBandit

__all__ = ["Bandit", "Cells", "ClassificationBandit", "Coverage", "adversarial_bandits"]
