"""Writes policy files: a zip of `policy.json`, npy arrays and, for models, skops files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from piwo._version import __version__
from piwo.errors import UsageError
from piwo.files import array_bytes, pack, write_file
from piwo.logs.actions import Actions
from piwo.messages import argument
from piwo.policies.models import model_bytes
from piwo.policies.state import State
from piwo.policies.subclasses import is_foreign

__all__ = ["FORMAT", "FORMAT_VERSION", "MAX_DEPTH", "save", "sklearn_version"]

FORMAT = "piwo-policy"
FORMAT_VERSION = 2
"""2 added hashed context columns, and missing values in context columns. Version 1 can be read."""
MAX_DEPTH = 20
"""How deep policies may be nested: deeper than anyone needs, and shallower than Python's stack."""


# `Policy` itself imports this file, so policies have no type here.


def save(
    policy: Any,
    path: str | PathLike[str],
    metadata: Mapping[str, Any] | None = None,
    *,
    format: str = FORMAT,  # noqa: A002 (its name in the file)
    version: int = FORMAT_VERSION,
) -> None:
    """Write a policy to one file; see `Policy.save`. Policies of slates have their own format."""
    members: dict[str, bytes] = {}
    page = {
        "format": format,
        "version": version,
        "library": __version__,
        "policy": _entry(policy, "policy", members),
        "metadata": metadata or {},
    }
    try:
        text = json.dumps(page, indent=1, allow_nan=False)
    except (TypeError, ValueError) as cause:
        raise UsageError(
            f"{argument('metadata')} is not JSON: {cause}; give numbers (no NaN), "
            "texts, lists and dicts"
        ) from None
    write_file(Path(path), pack({"policy.json": text.encode()} | members))


def _entry(policy: Any, place: str, members: dict[str, bytes]) -> dict[str, Any]:
    """Return a policy's part of `policy.json`; add its arrays and models to `members` by place."""
    if is_foreign(type(policy)):
        raise UsageError(
            f"a {policy.kind} policy cannot be saved: its class is not part of piwo, and files "
            "hold no code; save a linear, tabular or classifier policy, or write its "
            "probabilities into a column of the log"
        )
    state: State = policy.state()
    if place.count("/") > MAX_DEPTH:
        raise UsageError(
            f"the policy holds policies more than {MAX_DEPTH} deep; write it as one mixture"
        )
    entry: dict[str, Any] = {"kind": policy.kind, "parameters": dict(state.parameters)}
    if state.actions is not None:
        entry["actions"] = _actions_entry(state.actions)
    if state.features is not None:
        entry["features"] = state.features.to_spec()
    if state.arrays:
        entry["arrays"] = {}
    for name, array in state.arrays.items():
        entry["arrays"][name] = f"{place}/{name}.npy"
        members[entry["arrays"][name]] = array_bytes(array)
    if state.model is not None:
        entry["model"] = f"{place}/model.skops"
        entry["sklearn"] = sklearn_version()
        members[entry["model"]] = model_bytes(state.model)
    if state.parts:
        entry["parts"] = []
    for i, part in enumerate(state.parts):
        entry["parts"].append(_entry(part, f"{place}/{i}", members))
    return entry


def _actions_entry(actions: Actions) -> dict[str, Any]:
    # Whole numbers are written as text: many JSON readers would round those of 64 bits.
    kind = "text"
    if isinstance(actions.labels[0], int):
        kind = "integer"
    return {"type": kind, "labels": [str(x) for x in actions.labels]}


def sklearn_version() -> str:
    """Return the version of scikit-learn that is installed."""
    import sklearn

    return str(sklearn.__version__)
