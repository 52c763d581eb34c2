"""Reads policy files, and lists every kind of policy that a file can hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from piwo._version import __version__
from piwo.checks import check_path, each_once
from piwo.errors import FileError, PiwoError, warn
from piwo.files import array_from, read_file, unpack
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.policies.classifier import Classifier
from piwo.policies.context_free import Constant, Uniform
from piwo.policies.epsilon_greedy import EpsilonGreedy
from piwo.policies.joint import JointLinear, JointSoftmax
from piwo.policies.joint_trees import JointTrees
from piwo.policies.linear import LinearGreedy, LinearSoftmax
from piwo.policies.logged import Column, Logging
from piwo.policies.majority_vote import MajorityVote
from piwo.policies.mixture import Mixture
from piwo.policies.models import model_from
from piwo.policies.policy import Aligned, Policy
from piwo.policies.provenance import Provenance
from piwo.policies.reward_models import RewardModels
from piwo.policies.sameness import plain_numbers
from piwo.policies.saving import FORMAT, FORMAT_VERSION, MAX_DEPTH, sklearn_version
from piwo.policies.state import State
from piwo.policies.tabular import Tabular
from piwo.policies.trees import Trees

__all__ = [
    "KINDS",
    "Format",
    "SavedPolicy",
    "format_of",
    "load",
    "load_with_metadata",
    "read_saved",
]

_ENTRY = {"kind", "parameters", "actions", "features", "arrays", "model", "sklearn", "parts"}

KINDS: Mapping[str, Callable[[State], Policy]] = {
    Aligned.kind: Aligned.from_state,
    Classifier.kind: Classifier.from_state,
    Column.kind: Column.from_state,
    Constant.kind: Constant.from_state,
    EpsilonGreedy.kind: EpsilonGreedy.from_state,
    JointLinear.kind: JointLinear.from_state,
    JointSoftmax.kind: JointSoftmax.from_state,
    JointTrees.kind: JointTrees.from_state,
    LinearGreedy.kind: LinearGreedy.from_state,
    LinearSoftmax.kind: LinearSoftmax.from_state,
    Logging.kind: Logging.from_state,
    MajorityVote.kind: MajorityVote.from_state,
    Mixture.kind: Mixture.from_state,
    RewardModels.kind: RewardModels.from_state,
    Tabular.kind: Tabular.from_state,
    Trees.kind: Trees.from_state,
    Uniform.kind: Uniform.from_state,
}
"""Every kind that a file can hold. A file names one of these; it cannot import anything by name."""


@dataclass(frozen=True)
class Format:
    """A format of files, and the kinds of policies that they hold.

    >>> POLICIES.name
    'piwo-policy'
    """

    name: str
    version: int
    """The newest that can be read."""
    kinds: Mapping[str, Callable[[State], Any]]
    others: Mapping[str, str] = field(default_factory=dict)
    """Other formats of piwo, and what to do with such a file."""


POLICIES = Format(
    FORMAT,
    FORMAT_VERSION,
    KINDS,
    {"piwo-slate-policy": "it holds a policy of slates; read it with piwo.slates.load"},
)


@dataclass(frozen=True)
class SavedPolicy:
    """What a policy file holds.

    >>> SavedPolicy(Uniform(["a", "b"])).metadata
    {}
    """

    policy: Policy
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What was stored with it, such as "certificate" and "training"."""
    library: str = ""
    """Version of piwo that wrote it."""


def load(path: str | PathLike[str]) -> Policy:
    """Read a policy that `Policy.save` wrote. The file holds no code.

    Args:
        path: the file.

    Returns:
        The policy, with the same probabilities as when it was saved.

    Raises:
        FileError: if it is missing, damaged, written by a newer version, or holds types that piwo
            does not load.

    Warns:
        PiwoWarning: if a scikit-learn model was fitted with another version of scikit-learn.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Uniform(["a", "b"]).save(folder + "/p.piwo")
    ...     load(folder + "/p.piwo")
    Uniform(2 actions)
    """
    check_path(path)
    return load_with_metadata(path).policy


def load_with_metadata(path: str | PathLike[str]) -> SavedPolicy:
    """Read a policy and what was stored with it. Errors and warnings are those of `load`.

    Args:
        path: the file.

    Returns:
        The policy, its metadata, and the version of piwo that wrote it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Uniform(["a", "b"]).save(folder + "/p.piwo", {"training": {"rows": 7}})
    ...     load_with_metadata(folder + "/p.piwo").metadata
    {'training': {'rows': 7}}
    """
    policy, metadata, library = read_saved(path, POLICIES)
    policy.provenance = (Provenance(lambda: metadata),)
    return SavedPolicy(policy, metadata, library)


def read_saved(path: str | PathLike[str], kind: Format) -> tuple[Any, Mapping[str, Any], str]:
    """Return the policy in a file, its metadata, and the version of piwo that wrote it.

    Args:
        path: the file.
        kind: of the file.

    Raises:
        FileError: see `load`.
    """
    check_path(path)
    file = Path(path)
    data = read_file(file)
    try:
        members = unpack(data)
        page = _page(members, kind)
        policy = _policy(page["policy"], members, file, kind)
        metadata, library = page["metadata"], page["library"]
        if not isinstance(metadata, dict) or not isinstance(library, str):
            raise ValueError("its metadata or version has the wrong type")
        return policy, metadata, library
    except FileError as cause:
        raise FileError(f"{file}: {cause}") from None
    except KeyError as cause:
        raise FileError(
            f"{file} is damaged: {cause} is missing; copy it again, or save the policy again"
        ) from None
    except RecursionError:
        raise FileError(
            f"{file} is damaged: it is nested too deeply; save the policy again"
        ) from None
    except (PiwoError, ValueError, TypeError, AttributeError, OverflowError) as cause:
        line = (str(cause).splitlines() or [type(cause).__name__])[0]
        raise FileError(
            f"{file} is damaged or not a policy file: {line}; copy it again, or save "
            "the policy again"
        ) from None


def format_of(path: str | PathLike[str]) -> str | None:
    """Return the format that a file says it has; None if it is not such a file.

    Raises:
        FileError: if it cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Uniform(["a", "b"]).save(folder + "/p.piwo")
    ...     format_of(folder + "/p.piwo")
    'piwo-policy'
    """
    check_path(path)
    data = read_file(Path(path))
    try:
        page = json.loads(unpack(data)["policy.json"])
        found = page["format"]
    except (PiwoError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _page(members: Mapping[str, bytes], kind: Format) -> dict[str, Any]:
    if "policy.json" not in members:
        raise FileError(
            "it is a zip file without policy.json, so it is not a policy file; give a "
            "file that policy.save wrote"
        )
    page = json.loads(
        members["policy.json"], parse_constant=_no_constant, object_pairs_hook=each_once
    )
    if isinstance(page, dict) and page.get("format") in kind.others:
        raise FileError(kind.others[page["format"]])
    if not isinstance(page, dict) or page.get("format") != kind.name:
        raise FileError("its policy.json is not a piwo policy; give a file that policy.save wrote")
    version = page["version"]
    if type(version) is not int or version < 1:
        raise ValueError(f"its format version is {version!r}")
    if version > kind.version:
        raise FileError(
            f"it has format version {version} (written by piwo "
            f"{page.get('library')!s:.40}), this piwo {__version__} reads up to "
            f"{kind.version}; update piwo"
        )
    return page


def _no_constant(text: str) -> None:
    raise ValueError(f"policy.json holds {text}, expected finite numbers")


def _policy(
    entry: Any, members: Mapping[str, bytes], file: Path, of: Format, depth: int = 0
) -> Any:
    if depth > MAX_DEPTH:
        raise RecursionError
    odd = sorted(entry.keys() - _ENTRY)
    if odd:
        raise ValueError(f"it has an unknown field {odd[0]!r:.80}")
    kind = entry["kind"]
    if kind not in of.kinds:
        raise FileError(
            f"it holds a policy of the kind {kind!r:.80}, which piwo {__version__} "
            "does not know; update piwo"
        )
    actions = features = model = None
    if entry.get("model") is not None:
        _check_sklearn(str(entry["sklearn"]), file)
    if entry.get("actions") is not None:
        actions = _actions(entry["actions"])
    if entry.get("features") is not None:
        features = Features.from_spec(entry["features"])
    parameters = dict(entry["parameters"])
    arrays = {name: array_from(members[x]) for name, x in entry.get("arrays", {}).items()}
    parts = [_policy(part, members, file, of, depth + 1) for part in entry.get("parts", [])]
    if entry.get("model") is not None:
        model = model_from(members[entry["model"]])
    state = State(actions, features, parameters, arrays, tuple(parts), model)
    made = of.kinds[kind](state)
    _check_all_read(made, state)
    return made


def _check_all_read(made: Any, state: State) -> None:
    """Refuse a file with content that the policy ignores or changes: it would act differently."""
    again = made.state()
    same = (
        _text(again.parameters) == _text(state.parameters)
        and again.arrays.keys() == state.arrays.keys()
        and len(again.parts) == len(state.parts)
        and (again.features, again.actions) == (state.features, state.actions)
        and (again.model is None) == (state.model is None)
    )
    for name, array in state.arrays.items():
        # Weights were divided by their sum once more, which may change their last digits.
        same = same and _close(again.arrays[name], array)
    if not same:
        raise ValueError(f"its content is not that of a {made.kind} policy")


def _text(parameters: Mapping[str, Any]) -> str:
    return json.dumps(plain_numbers(parameters), sort_keys=True)


def _close(one: Floats, other: Floats) -> bool:
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-9, atol=0.0))


def _actions(entry: Any) -> Actions:
    labels = entry["labels"]
    if not all(isinstance(x, str) for x in labels):
        raise ValueError("the action labels are not text")
    if entry["type"] == "text":
        return Actions(labels)
    if entry["type"] != "integer":
        raise ValueError(
            f"the actions have the type {entry['type']!r}, expected 'text' or 'integer'"
        )
    numbers = [int(x) for x in labels]
    if [str(x) for x in numbers] != labels:
        raise ValueError("the action labels are not whole numbers as they are written")
    return Actions(numbers)


def _check_sklearn(written: str, file: Path) -> None:
    have = sklearn_version()
    if written != have:
        warn(
            f"{file}: its model was fitted with scikit-learn {written:.40}, this is "
            f"{have}; its choices may differ, so evaluate it again before you rely on "
            "it"
        )
