"""Off-policy learning with scikit-learn's tools: pipelines, searches, cross-validation.

`OffPolicyClassifier` learns as the learners of the log API do, from arrays and metadata. Scorers
and splitters fit `GridSearchCV` and `cross_validate`; `certify` certifies a whole fitted pipeline
on new rows. `import piwo` does not import this package, nor scikit-learn.
"""

from piwo.sklearn.certificate import certify
from piwo.sklearn.classifier import OffPolicyClassifier
from piwo.sklearn.scorers import PolicyScorer, improvement_lcb, ips, ix, lcb, snips
from piwo.sklearn.splitters import TimeFold, UnitFold

__all__ = [
    "OffPolicyClassifier",
    "PolicyScorer",
    "TimeFold",
    "UnitFold",
    "certify",
    "improvement_lcb",
    "ips",
    "ix",
    "lcb",
    "snips",
]
