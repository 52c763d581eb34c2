"""Oracles: from gains to the policy that collects most of them."""

from piwo.oracles.classifier import Classifier
from piwo.oracles.exhaustive import Exhaustive
from piwo.oracles.oracle import Oracle
from piwo.oracles.ridge import Ridge

__all__ = ["Classifier", "Exhaustive", "Oracle", "Ridge"]
