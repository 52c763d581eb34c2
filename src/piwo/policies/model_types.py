"""The fitted models that a policy file may hold: a positive list, and checks of what they hold.

Files with other types are refused before anything of them is made. scikit-learn's compiled code
follows the numbers of a model without looking at them: a file whose numbers point outside its
arrays would read or write memory that is not its own. So every type that ends in compiled code has
a check here; models of libsvm, neighbor trees, text vectorizers (which open the files that a
context names) and sparse arrays have none and are not listed.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

__all__ = ["ESTIMATORS", "PLAIN", "check_fitted", "check_schema", "refused_types"]

ESTIMATORS: Mapping[str, str] = {
    "calibration": "CalibratedClassifierCV _CalibratedClassifier _SigmoidCalibration "
    "_TemperatureScaling",
    "compose": "ColumnTransformer TransformedTargetRegressor _RemainderColsList",
    "decomposition": "PCA TruncatedSVD",
    "discriminant_analysis": "LinearDiscriminantAnalysis QuadraticDiscriminantAnalysis",
    "dummy": "DummyClassifier DummyRegressor",
    "ensemble": "AdaBoostClassifier AdaBoostRegressor BaggingClassifier BaggingRegressor "
    "ExtraTreesClassifier ExtraTreesRegressor GradientBoostingClassifier "
    "GradientBoostingRegressor HistGradientBoostingClassifier HistGradientBoostingRegressor "
    "RandomForestClassifier RandomForestRegressor StackingClassifier StackingRegressor "
    "TreePredictor VotingClassifier VotingRegressor _BinMapper",
    "feature_selection": "SelectFromModel VarianceThreshold",
    "frozen": "FrozenEstimator",
    "gaussian_process": "CompoundKernel ConstantKernel DotProduct Exponentiation "
    "GaussianProcessClassifier GaussianProcessRegressor Matern Product RBF RationalQuadratic Sum "
    "WhiteKernel _BinaryGaussianProcessClassifierLaplace",
    "impute": "MissingIndicator SimpleImputer",
    "isotonic": "IsotonicRegression",
    "kernel_approximation": "Nystroem RBFSampler",
    "kernel_ridge": "KernelRidge",
    "linear_model": "ARDRegression BayesianRidge ElasticNet ElasticNetCV GammaRegressor "
    "HuberRegressor Lars LarsCV Lasso LassoCV LassoLars LassoLarsCV LassoLarsIC LinearRegression "
    "LogisticRegression LogisticRegressionCV OrthogonalMatchingPursuit "
    "OrthogonalMatchingPursuitCV PassiveAggressiveClassifier PassiveAggressiveRegressor "
    "Perceptron PoissonRegressor QuantileRegressor RANSACRegressor Ridge RidgeCV RidgeClassifier "
    "RidgeClassifierCV SGDClassifier SGDRegressor TheilSenRegressor TweedieRegressor",
    "metrics": "_PassthroughScorer",
    "model_selection": "GridSearchCV GroupKFold HalvingGridSearchCV HalvingRandomSearchCV KFold "
    "RandomizedSearchCV RepeatedKFold RepeatedStratifiedKFold ShuffleSplit StratifiedKFold "
    "StratifiedShuffleSplit TimeSeriesSplit",
    "multiclass": "OneVsOneClassifier OneVsRestClassifier OutputCodeClassifier _ConstantPredictor",
    "naive_bayes": "BernoulliNB CategoricalNB ComplementNB GaussianNB MultinomialNB",
    "neighbors": "KNeighborsClassifier KNeighborsRegressor",
    "neural_network": "AdamOptimizer MLPClassifier MLPRegressor SGDOptimizer",
    "pipeline": "FeatureUnion Pipeline",
    "preprocessing": "Binarizer FunctionTransformer KBinsDiscretizer LabelBinarizer LabelEncoder "
    "MaxAbsScaler MinMaxScaler Normalizer OneHotEncoder OrdinalEncoder PolynomialFeatures "
    "PowerTransformer QuantileTransformer RobustScaler StandardScaler",
    "svm": "LinearSVC LinearSVR",
    "tree": "DecisionTreeClassifier DecisionTreeRegressor ExtraTreeClassifier ExtraTreeRegressor",
    "utils": "MetadataRequest MethodMetadataRequest",
}
"""Module of scikit-learn -> its classes that a file may hold."""

PLAIN: Mapping[str, str] = {
    "DTypeNode": "numpy.dtype",
    "DictNode": "builtins.dict collections.OrderedDict collections.defaultdict "
    "sklearn.utils._bunch.Bunch",
    "FunctionNode": "sklearn.utils.validation.check_array",
    "JsonNode": "builtins.str",
    "ListNode": "builtins.list",
    "MaskedArrayNode": "numpy.ma.MaskedArray numpy.ma.core.MaskedArray",
    "PartialNode": "functools.partial",
    "RandomGeneratorNode": "numpy.random._generator.Generator",
    "RandomStateNode": "numpy.random.mtrand.RandomState",
    "SetNode": "builtins.set",
    "SliceNode": "builtins.slice",
    "TreeNode": "sklearn.tree._tree.Tree",
    "TupleNode": "builtins.tuple",
    "TypeNode": "builtins.bool builtins.float builtins.int builtins.str numpy.bool numpy.bool_ "
    "numpy.float32 numpy.float64 numpy.int32 numpy.int64 numpy.object_ numpy.str_",
}
"""Loader of skops -> what it may make."""

_SCALARS = "bool bool_ float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
_SCALARS += "str_ ndarray"
_METRICS = ("minkowski", "euclidean", "sqeuclidean", "manhattan", "l1", "l2", "cityblock", "cosine")

Node = dict[str, Any]


def refused_types(schema: Any) -> list[str]:
    """Return the types in a skops schema that are not on the list, each once."""
    found: dict[str, None] = {}
    for node in _nodes(schema):
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        if not _listed(node["__loader__"], name):
            found[name] = None
    return list(found)


def _listed(loader: Any, name: str) -> bool:
    if loader == "NdArrayNode":
        home, _, last = name.rpartition(".")
        return home == "numpy" and last in _SCALARS.split()
    if loader in {"LossNode", "SGDNode"}:
        # The first is what scikit-learn before 1.6 called the second.
        homes = ("_loss.Cy", "sklearn._loss._loss.Cy", "sklearn.linear_model._sgd_fast.")
        return name.startswith(homes)
    if loader != "ObjectNode":
        return name in PLAIN.get(str(loader), "").split()
    if name.startswith(("sklearn._loss.link.", "sklearn._loss.loss.")):
        return name.count(".") == 3
    package, _, rest = name.partition(".")
    module, _, path = rest.partition(".")
    return package == "sklearn" and path.rpartition(".")[2] in ESTIMATORS.get(module, "").split()


def _nodes(schema: Any) -> Iterator[Node]:
    """Yield the parts of a schema that make something."""
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if "__loader__" in part:
                yield part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part


def check_schema(schema: Any, members: Mapping[str, bytes]) -> None:
    """Raise for what could harm while the model is made.

    Raises:
        ValueError: for one number of two different objects (the second would not be looked at), and
            for trees whose declared sizes are not those of their arrays.
    """
    contents: dict[Any, str] = {}
    digests: dict[int, str] = {}
    for node in _nodes(schema):
        if "__id__" in node and node["__loader__"] not in {"JsonNode", "TypeNode"}:
            digest = _digest(node, members, digests)
            if contents.setdefault(node["__id__"], digest) != digest:
                raise ValueError("two different objects have one number")
        if node["__loader__"] == "TreeNode":
            _check_tree_node(node, members)


def _digest(part: Any, members: Mapping[str, bytes], known: dict[int, str]) -> str:
    """Return a digest of an object's contents, whatever numbers and files these were given.

    Args:
        part: of the schema.
        members: the files, by name.
        known: digests by the identity of the part, for what was asked for before.
    """
    if id(part) in known:
        return known[id(part)]
    made = hashlib.sha256()
    if isinstance(part, dict):
        for key in sorted(part):
            if key == "file" and part[key] in members:
                made.update(hashlib.sha256(members[part[key]]).digest())
            elif key != "__id__":
                made.update(f"{key}:{_digest(part[key], members, known)},".encode())
    elif isinstance(part, list):
        for value in part:
            made.update(f"{_digest(value, members, known)},".encode())
    else:
        return repr(part)
    known[id(part)] = made.hexdigest()
    return known[id(part)]


def _check_tree_node(node: Node, members: Mapping[str, bytes]) -> None:
    features, classes, outputs = node["__reduce__"]["args"]["content"]
    state = node["content"]["content"]
    n_features, n_outputs = _number(features), _number(outputs)
    n_classes, values = _array(classes, members), _array(state["values"], members)
    nodes, count = _array(state["nodes"], members), _number(state["node_count"])
    fits = (
        n_features >= 1
        and n_classes.dtype.kind == "i"
        and n_classes.shape == (n_outputs,)
        and n_outputs >= 1
        and n_classes.min() >= 1
        and nodes.shape == (count,)
        and values.shape == (count, n_outputs, int(n_classes.max()))
        and values.dtype == np.float64
        and _number(state["max_depth"]) >= 0
    )
    if not fits:
        raise ValueError("a tree's arrays have other sizes than it says")


def _number(node: Node) -> int:
    value = json.loads(node["content"])
    if node["__loader__"] != "JsonNode" or type(value) is not int:
        raise ValueError("a tree's sizes are not whole numbers")
    return value


def _array(node: Node, members: Mapping[str, bytes]) -> Any:
    if node["__loader__"] != "NdArrayNode":
        raise ValueError("a tree's arrays are something else")
    return np.load(io.BytesIO(members[node["file"]]), allow_pickle=False)


# These attributes hold trees that get the same columns as their owner, which compares its input
# with `n_features_in_`.
_OF_SAME_COLUMNS = ("estimators_", "_predictors", "tree_")
_TREES = tuple(
    name + kind
    for name in ("Tree", "Trees", "Forest", "GradientBoosting")
    for kind in ("Classifier", "Regressor")
)


def check_fitted(model: Any) -> None:
    """Raise for numbers that scikit-learn's compiled code would follow outside of its arrays.

    Raises:
        ValueError: saying which.
    """
    _check(model, set(), None)


def _check(part: Any, seen: set[tuple[int, int | None]], most: int | None) -> None:
    """Check a part of a model whose owner hands on rows of `most` columns (None: not known).

    A part with several owners is checked for each of them.
    """
    if isinstance(part, str | bytes | int | float | None) or (id(part), most) in seen:
        return
    seen.add((id(part), most))
    if isinstance(part, dict):
        for value in part.values():
            _check(value, seen, most)
    elif isinstance(part, list | tuple) or (isinstance(part, np.ndarray) and part.dtype == object):
        for value in part:
            _check(value, seen, most)
    elif type(part).__name__ == "Tree":
        _check_tree(part, most)
    elif hasattr(part, "__dict__") and type(part).__name__ != "TreePredictor":
        check = _CHECKS.get(type(part).__name__)
        _check_members(part, seen, most)
        if check is not None and _is_fitted(part):
            check(part)


def _is_fitted(model: Any) -> bool:
    """Whether a model has attributes of its fit: a search also holds one that was never fitted."""
    return any(name.endswith("_") and not name.startswith("_") for name in vars(model))


def _check_members(owner: Any, seen: set[tuple[int, int | None]], most: int | None) -> None:
    width = getattr(owner, "n_features_in_", None)
    held = [name for name in _OF_SAME_COLUMNS if name in vars(owner)]
    # Classes that hand their rows on to trees without another check.
    unchecked = type(owner).__name__.endswith(_TREES)
    if held and unchecked and (type(width) is not int or width < 1):
        raise ValueError(f"a {type(owner).__name__} does not say how many columns it reads")
    if width is not None and most is not None:
        width = min(width, most)
    for name, value in vars(owner).items():
        columns = None
        if name in held:
            columns = width
        _check(value, seen, columns)


def _check_tree(tree: Any, most: int | None) -> None:
    if most is None:
        raise ValueError("a tree has no owner that says how many columns it reads")
    inner = tree.children_left != -1
    width = min(most, tree.n_features)
    _check_links(tree.children_left, tree.children_right, tree.feature, inner, width)


def _check_links(left: Any, right: Any, feature: Any, inner: Any, columns: int) -> None:
    # A child comes after its parent, so following links ends.
    own, count = np.arange(len(left))[inner], len(left)
    below, above = np.minimum(left, right)[inner], np.maximum(left, right)[inner]
    outside = (below <= own) | (above >= count) | (feature[inner] < 0) | (feature[inner] >= columns)
    if not count or outside.any():
        raise ValueError("a tree's links or columns point outside")


def _check_boosting(model: Any) -> None:
    """Compiled code adds each tree to a column of a table that other attributes make."""
    table = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))  # noqa: SLF001
    trees = model.estimators_
    if trees.ndim != 2 or table.shape != (1, trees.shape[1]) or table.dtype != np.float64:
        raise ValueError("a boosted model has another number of trees than of outputs")
    for tree in trees.ravel():
        if tree.tree_.value.shape[1:] != (1, 1):
            raise ValueError("a boosted model has trees with several outputs")


def _check_hist_boosting(model: Any) -> None:
    from sklearn.ensemble._hist_gradient_boosting.common import PREDICTOR_RECORD_DTYPE

    rows = np.zeros((1, model.n_features_in_))
    if getattr(model, "_preprocessor", None) is not None:
        rows = model._preprocessor.transform(rows)  # noqa: SLF001
    columns, categorical = rows.shape[1], model._bin_mapper.is_categorical_  # noqa: SLF001
    if categorical.shape != (columns,):
        raise ValueError("a boosted model's bins are for another number of columns")
    for stage in model._predictors:  # noqa: SLF001
        for predictor in stage:
            nodes = predictor.nodes
            tables = (predictor.raw_left_cat_bitsets, predictor.binned_left_cat_bitsets)
            sizes = [x.ndim == 2 and x.shape[1] == 8 and x.dtype == np.uint32 for x in tables]
            if nodes.dtype != PREDICTOR_RECORD_DTYPE or nodes.ndim != 1 or not all(sizes):
                raise ValueError("a boosted model's trees have arrays of other types")
            inner = nodes["is_leaf"] == 0
            _check_links(nodes["left"], nodes["right"], nodes["feature_idx"], inner, columns)
            split = inner & (nodes["is_categorical"] != 0)
            outside = nodes["bitset_idx"][split] >= min(map(len, tables))
            if (
                outside.any()
                or not np.asarray(categorical, bool)[nodes["feature_idx"][split]].all()
            ):
                raise ValueError("a tree's categories point outside its table")


def _check_neighbors(model: Any) -> None:
    rows, metric = model._fit_X, model.effective_metric_  # noqa: SLF001
    known: Any = getattr(model, "_y", None)
    fits = (
        isinstance(rows, np.ndarray)
        and rows.ndim == 2
        and rows.dtype.kind == "f"
        and rows.shape[1] == model.n_features_in_
        and model._fit_method == "brute"  # noqa: SLF001
        and 1 <= model.n_neighbors <= len(rows)
        and metric in _METRICS
        and set(model.effective_metric_params_) <= {"p"}
        and isinstance(known, np.ndarray)
        and known.shape[0] == len(rows)
    )
    if fits and hasattr(model, "classes_"):
        inside = known.ndim == 1 and known.dtype.kind == "i" and known.min() >= 0
        fits = inside and known.max() < len(model.classes_)
    if not fits:
        raise ValueError(
            "neighbors have arrays that do not fit each other, or a metric that is not loaded"
        )


def _check_one_hot(model: Any) -> None:
    """The encoder makes a sparse table with as many columns as it says."""
    drops = getattr(model, "_drop_idx_after_grouping", getattr(model, "drop_idx_", None))
    counts = [len(x) for x in model.categories_]
    if drops is not None or getattr(model, "_infrequent_enabled", False):
        raise ValueError("a OneHotEncoder that drops or groups categories is not loaded")
    if list(model._n_features_outs) != counts or len(counts) != model.n_features_in_:  # noqa: SLF001
        raise ValueError("a OneHotEncoder has another number of columns than of categories")


_CHECKS = {
    "GradientBoostingClassifier": _check_boosting,
    "GradientBoostingRegressor": _check_boosting,
    "HistGradientBoostingClassifier": _check_hist_boosting,
    "HistGradientBoostingRegressor": _check_hist_boosting,
    "KNeighborsClassifier": _check_neighbors,
    "KNeighborsRegressor": _check_neighbors,
    "OneHotEncoder": _check_one_hot,
}
"""Name of a class -> the check of its fitted attributes."""
