"""Fits scikit-learn models, and stores them with skops: no pickle, and only listed types."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from piwo.engines.native_threads import native_threads
from piwo.errors import DataError, UsageError
from piwo.files import pack, unpack
from piwo.logs.batch import Floats
from piwo.policies.model_types import check_fitted, check_schema, refused_types

__all__ = [
    "check_takes_weights",
    "fitted_model",
    "model_bytes",
    "model_from",
    "weighted_model",
]

_INSTEAD = (
    "export the model to ONNX and wrap its predictions in a policy of your own "
    "(policies.Function), or log its probabilities as a column"
)
"""How to ship other models."""
_SMALL = 2**20
"""Numbers in a context that one thread fits as fast as several."""


def model_bytes(model: Any) -> bytes:
    """Return a fitted model in skops' format; the same bytes for the same model.

    Raises:
        UsageError: for a model with parts that `model_from` would refuse.
    """
    import skops.io

    try:
        data = skops.io.dumps(model)
        refused = refused_types(_schema(data)[0])
    except Exception as cause:  # noqa: BLE001 (the model's own code may raise anything)
        raise UsageError(
            f"a {type(model).__name__} cannot be saved: {_line(cause)}; use a "
            "scikit-learn classifier, or a column of the log"
        ) from None
    if refused:
        raise UsageError(
            f"a {type(model).__name__} holds parts that piwo does not load from files: "
            f"{', '.join(refused[:5])}; use plain scikit-learn models (for neighbors: "
            f"algorithm='brute'), or {_INSTEAD}"
        )
    made = _canonical(data)
    try:
        model_from(made)
    except ValueError as cause:
        raise UsageError(
            f"a {type(model).__name__} cannot be saved, as it would not be loaded: {cause}; "
            f"{_INSTEAD}"
        ) from None
    return made


def model_from(data: bytes) -> Any:
    """Return the model of such bytes. Types and sizes are checked first; no code from it runs.

    Raises:
        ValueError: if types are not listed in `model_types`, if numbers point outside of arrays, or
            if the bytes are damaged.
    """
    import skops.io

    try:
        schema, members = _schema(data)
        refused = refused_types(schema)
        if refused:
            raise ValueError(
                f"its model holds types that are not loaded from files: {', '.join(refused[:5])}; "
                f"{_INSTEAD}"
            )
        check_schema(schema, members)
        with warnings.catch_warnings():
            # The caller compares versions, and its warning names the file.
            warnings.filterwarnings("ignore", message=".*from version.*")
            # What skops itself trusts is more than what is listed, which was checked.
            trusted = skops.io.get_untrusted_types(data=data)
            model = skops.io.loads(data, trusted=trusted)
        check_fitted(model)
    # A damaged file can make skops and scikit-learn raise anything.
    except Exception as cause:  # noqa: BLE001
        raise ValueError(_line(cause)) from None
    return model


def _schema(data: bytes) -> tuple[Any, dict[str, bytes]]:
    """Return the description of a model in skops' bytes, and their other members."""
    members = unpack(data)
    if "schema.json" not in members:
        raise ValueError("its model has no description")
    return json.loads(members["schema.json"]), members


def _line(cause: Exception) -> str:
    return (str(cause).splitlines() or [type(cause).__name__])[0][:300]


def _canonical(data: bytes) -> bytes:
    """Return the same model with objects numbered in order, in place of memory addresses."""
    members = unpack(data)
    schema = json.loads(members.pop("schema.json"))
    numbers: dict[tuple[int, ...], int] = {}
    names: dict[str, str] = {}

    def visit(node: Any) -> None:
        if isinstance(node, dict):
            if type(node.get("__id__")) is int:
                # Two equal texts or numbers may or may not be one object: each gets its own number.
                key: tuple[int, ...] = (node["__id__"],)
                if node.get("__loader__") == "JsonNode":
                    key = (node["__id__"], len(numbers))
                node["__id__"] = numbers.setdefault(key, len(numbers) + 1)
            if "__loader__" in node and node.get("file") in members:
                suffix = node["file"].rpartition(".")[2]
                node["file"] = names.setdefault(node["file"], f"{len(names) + 1}.{suffix}")
            for value in node.values():
                visit(value)
        elif isinstance(node, list):
            for value in node:
                visit(value)

    visit(schema)
    renamed = {new: members[old] for old, new in names.items()}
    return pack({"schema.json": json.dumps(schema).encode()} | renamed, zipfile.ZIP_STORED)


def check_takes_weights(model: Any) -> None:
    """Raise unless `fit` of a model takes sample weights, itself or by handing them to its parts.

    scikit-learn is asked: by the arguments of `fit`, or by metadata routing, which knows of
    pipelines, searches, voting and stacking.

    Raises:
        UsageError: naming the part that takes none.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import GridSearchCV
    >>> check_takes_weights(GridSearchCV(LogisticRegression(), {"C": [1.0]}))
    """
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    fits = hasattr(model, "fit")
    lacking = model
    if fits and has_fit_parameter(model, "sample_weight"):
        lacking = _refusing(model)
    elif fits and hasattr(model, "get_metadata_routing"):
        try:
            lacking = _requesting(clone(model))
        except NotImplementedError as cause:
            # meta-estimators learned to hand weights on one by one
            line = " ".join(str(cause).split())[:200]
            raise UsageError(f"{line}: update scikit-learn, or use another classifier") from None
    if lacking is not None:
        advice = "use another classifier"
        if lacking is not model and hasattr(lacking, "steps"):
            advice = (
                "update scikit-learn, whose votes and stacks pass weights to pipelines since 1.7"
            )
        raise UsageError(
            f"{type(lacking).__name__}.fit takes no sample_weight, expected one for the gains; "
            f"{advice}"
        )


def _refusing(model: Any) -> Any:
    """Return the model, or the part of a vote or stack, that takes no sample weights, or None.

    Before scikit-learn 1.7 votes and stacks take weights as an argument of `fit`, and pass them to
    the `fit` of each part, whether it takes them or not.
    """
    from sklearn.ensemble import StackingClassifier, VotingClassifier
    from sklearn.utils.validation import has_fit_parameter

    if not has_fit_parameter(model, "sample_weight"):
        return model
    if not isinstance(model, StackingClassifier | VotingClassifier):
        return None
    for name, part in model.get_params(deep=True).items():
        # Names with __ are parameters of parts; a part may be None or "drop".
        if "__" not in name and hasattr(part, "fit"):
            found = _refusing(part)
            if found is not None:
                return found
    return None


def weighted_model(model: Any, context: Floats, target: Any, weight: Floats) -> Any:
    """Fit a copy of a scikit-learn model with sample weights, and return it.

    Parts that learn from the target, and scores by which a search chooses, get the weights;
    transformers get them only if their user has requested it (`set_fit_request`).

    Args:
        model: an estimator that `check_takes_weights` accepts.
        context: (n, d).
        target: (n,) labels or numbers.
        weight: (n,) non-negative.

    Raises:
        DataError: if the model refuses the data.
    """
    from sklearn import config_context
    from sklearn.base import clone
    from sklearn.utils.validation import has_fit_parameter

    made, given = clone(model), {"sample_weight": weight}
    if has_fit_parameter(made, "sample_weight"):
        return fitted_model(made, context, target, given)
    _requesting(made)
    with config_context(enable_metadata_routing=True):
        fitted_model(made, context, target, given)
    _forget_requests(made, set())
    return made


def _requesting(model: Any) -> Any:
    """Request sample weights for all parts that learn; return one that takes none, or None."""
    from sklearn import config_context
    from sklearn.base import is_classifier, is_regressor
    from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object

    with config_context(enable_metadata_routing=True):
        given = [model, *model.get_params(deep=True).values()]
        parts = [x for x in given if hasattr(x, "get_metadata_routing") and not isinstance(x, type)]
        for part in parts:
            learns = is_classifier(part) or is_regressor(part)
            _request(part, "fit", wanted=learns)
            # an estimator that has no parts takes weights itself, or nothing does
            known = get_routing_for_object(part)
            alone = isinstance(known, MetadataRequest)
            if learns and alone and "sample_weight" not in known.fit.requests:
                return part
        routing = get_routing_for_object(model)
        if not routing.consumes(method="fit", params=["sample_weight"]):
            return model
        for part in parts:
            _request(part, "score", wanted=True)
            if isinstance(getattr(part, "scoring", None), str):
                part.set_params(scoring=_weighing(part.scoring))
    return None


def _request(part: Any, method: str, *, wanted: bool) -> None:
    """Request sample weights for a method, or refuse them, unless the user has done either."""
    from sklearn.utils.metadata_routing import MetadataRouter, get_routing_for_object

    ask, known = getattr(part, f"set_{method}_request", None), get_routing_for_object(part)
    requests = getattr(getattr(known, method, None), "requests", {})
    # what an estimator with parts has requested for itself is not public; `score` is its own method
    free = requests.get("sample_weight", "decided") is None
    if isinstance(known, MetadataRouter) and method == "score":
        free = "_metadata_request" not in vars(part)
    if ask is not None and free:
        ask(sample_weight=wanted)


def _weighing(name: str) -> Any:
    """Return the scorer of that name, which weighs the rows if its metric can."""
    from sklearn.metrics import get_scorer
    from sklearn.utils.validation import has_fit_parameter

    scorer = get_scorer(name)
    metric = SimpleNamespace(fit=scorer._score_func)  # noqa: SLF001 (there is no other way to ask)
    return scorer.set_score_request(sample_weight=has_fit_parameter(metric, "sample_weight"))


def _forget_requests(part: Any, seen: set[int]) -> None:
    """Remove the requests from a fitted model: they serve `fit` alone, and files hold none."""
    if id(part) in seen:
        return
    seen.add(id(part))
    if isinstance(part, dict):
        inner = list(part.values())
    elif isinstance(part, list | tuple):
        inner = list(part)
    elif hasattr(part, "__dict__") and not isinstance(part, type):
        vars(part).pop("_metadata_request", None)
        inner = list(vars(part).values())
    else:
        return
    for one in inner:
        _forget_requests(one, seen)


def fitted_model(
    model: Any, context: Floats, target: Any, fit_parameters: Mapping[str, Any] | None = None
) -> Any:
    """Fit a scikit-learn model and return it; its error becomes one line.

    Args:
        model: an estimator that is not fitted yet.
        context: (n, d).
        target: (n,) labels or numbers.
        fit_parameters: further arguments of its `fit`, such as sample weights.

    Raises:
        DataError: if the model refuses the data.
    """
    # Threads of OpenMP and BLAS do not pay for small tables, and spin if the machine is busy.
    limit = None
    if np.size(context) < _SMALL:
        limit = 1
    try:
        # A cast to float32 may overflow: the model then reports the infinity.
        with (
            native_threads(limit),
            np.errstate(over="ignore", invalid="ignore"),
            warnings.catch_warnings(),
        ):
            # Logs may have many actions and few rewarded rows.
            warnings.filterwarnings("ignore", message="The number of unique classes is greater")
            model.fit(context, target, **(fit_parameters or {}))
    except (TypeError, ValueError) as cause:
        line = " ".join(str(cause).split())[:200]
        raise DataError(f"{type(model).__name__} cannot be fitted to these rows: {line}") from None
    return model
