"""Damaged and hostile policy files: one line that names the file, and nothing of
the file is run.
"""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from piwo.errors import FileError, UsageError
from piwo.files import array_bytes, pack
from piwo.policies import (
    Classifier,
    Constant,
    EpsilonGreedy,
    LinearGreedy,
    LinearSoftmax,
    Mixture,
    Policy,
    Tabular,
    Uniform,
    load,
)
from piwo.policies.files import KINDS
from piwo.policies.model_types import ESTIMATORS, PLAIN
from piwo.policies.saving import FORMAT_VERSION

Page = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "policy of mine.piwo"
    LinearSoftmax([[1.0], [2.0]], [0, 0], ["a", "b"], temperature=0.5).save(path)
    return path


def refused(path: Path, *parts: str) -> str:
    """The one line with which loading is refused, which names the file and holds the parts."""
    with pytest.raises(FileError) as wrong:
        load(path)
    message = str(wrong.value)
    assert "\n" not in message
    assert str(path) in message
    for part in parts:
        assert part in message, message
    # What to do next stands at the end.
    assert any(
        x in message
        for x in ("again", "update piwo", "policy.save", "right file", "check the path")
    ), message
    return message


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as file:
        return {name: file.read(name) for name in file.namelist()}


def rewrite(path: Path, change: Callable[[Page], None], **pieces: bytes | None) -> None:
    """Change `policy.json`, and pieces by their name's last part; None leaves a piece out."""
    held = members(path)
    page = json.loads(held["policy.json"])
    change(page)
    held["policy.json"] = json.dumps(page).encode()
    for name in list(held):
        key = Path(name).stem
        if key in pieces:
            data = pieces[key]
            if data is None:
                del held[name]
            else:
                held[name] = data
    path.write_bytes(pack(held))


def nothing(_: Page) -> None:
    """Leave the page as it is."""


def test_cut_short_anywhere(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        refused(path)


def test_one_byte_changed_is_seen_or_means_nothing(path: Path) -> None:
    whole = path.read_bytes()
    policy, messages = load(path), []
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :])
        try:
            found = load(path)
        except FileError as wrong:
            messages.append(str(wrong))
        else:
            # Clock and comment fields of the zip have no checksum, and no meaning.
            np.testing.assert_array_equal(
                found.probabilities([[1.0]]), policy.probabilities([[1.0]])
            )
    assert len(messages) > len(whole) / 2
    assert all(str(path) in x and "\n" not in x for x in messages)


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"{}", b"PK\x03\x04", b"\x80\x04K\x01.", b"\0" * 100_000]
)
def test_no_policy_file_at_all(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    refused(path, "not a policy file")


def test_another_zip(path: Path) -> None:
    path.write_bytes(pack({"word/document.xml": b"<x/>"}))
    refused(path, "without policy.json")
    for page in (b"[]", b"3", b'{"format": "other"}'):
        path.write_bytes(pack({"policy.json": page}))
        refused(path, "not a piwo policy")
    for page in (
        b"",
        b"{",
        b"\xff\xfe",
        b'{"format": "piwo-policy", "version": 1, "x": NaN}',
        b"[" * 100_000,
    ):
        path.write_bytes(pack({"policy.json": page}))
        refused(path, "damaged")


def test_numbers_that_are_not_json(path: Path) -> None:
    for number in (float("nan"), float("-inf")):
        rewrite(path, lambda page, number=number: page.update(metadata={"lower": number}))  # type: ignore[misc]
        refused(path, "expected finite numbers")


def test_newer_and_unknown(path: Path) -> None:
    rewrite(path, lambda page: page.update(version=FORMAT_VERSION + 1, library="9.9"))
    refused(path, f"format version {FORMAT_VERSION + 1}", "piwo 9.9", "update piwo")
    rewrite(path, lambda page: page.update(version=1))
    rewrite(path, lambda page: page["policy"].update(kind="quantum"))
    refused(path, "kind 'quantum'", "update piwo")
    for version in ("1", None, 0, -1, True, 1.0):
        rewrite(path, lambda page, version=version: page.update(version=version))  # type: ignore[misc]
        refused(path, "format version")


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_kind_with_nothing_in_it(path: Path, kind: str) -> None:
    if kind == "logging":
        pytest.skip("a logging policy is nothing but its name")
    for entry in (
        {"kind": kind},
        {"kind": kind, "parameters": {}},
        {"kind": kind, "parameters": [], "parts": [1]},
    ):
        rewrite(path, lambda page, entry=entry: page.update(policy=entry))  # type: ignore[misc]
        refused(path, "damaged")


BREAKS: dict[str, Callable[[Page], None]] = {
    "no actions": lambda p: p["policy"].pop("actions"),
    "no kind": lambda p: p["policy"].pop("kind"),
    "no arrays": lambda p: p["policy"].pop("arrays"),
    "no policy": lambda p: p.pop("policy"),
    "no metadata": lambda p: p.pop("metadata"),
    "no version": lambda p: p.pop("version"),
    "a kind that is a list": lambda p: p["policy"].update(kind=["uniform"]),
    "doubled labels": lambda p: p["policy"]["actions"].update(labels=["a", "a"]),
    "fewer labels": lambda p: p["policy"]["actions"].update(labels=["a"]),
    "no labels": lambda p: p["policy"]["actions"].update(labels=[]),
    "labels of numbers": lambda p: p["policy"]["actions"].update(labels=[1, 2]),
    "labels that are one text": lambda p: p["policy"]["actions"].update(labels="ab"),
    "labels that are no numbers": lambda p: p["policy"]["actions"].update(type="integer"),
    "an unknown type of labels": lambda p: p["policy"]["actions"].update(type="float"),
    "a zero temperature": lambda p: p["policy"]["parameters"].update(temperature=0),
    "a text temperature": lambda p: p["policy"]["parameters"].update(temperature="hot"),
    "no temperature": lambda p: p["policy"].update(parameters={}),
    "an array elsewhere": lambda p: p["policy"]["arrays"].update(coef="../../../etc/passwd"),
    "an array that is a number": lambda p: p["policy"]["arrays"].update(coef=3),
    "features of nothing": lambda p: p["policy"].update(features=[{}]),
    "features of another width": lambda p: p["policy"].update(
        features=[{"column": "x", "kind": "vector", "levels": [], "size": 3}]
    ),
    "features of a negative width": lambda p: p["policy"].update(
        features=[{"column": "x", "kind": "vector", "levels": [], "size": -3}]
    ),
    "a parameter too many": lambda p: p["policy"]["parameters"].update(epsilon=0.1),
    "a temperature that is true": lambda p: p["policy"]["parameters"].update(temperature=True),
    "a temperature written as text": lambda p: p["policy"]["parameters"].update(temperature="0.5"),
    "an array too many": lambda p: p["policy"]["arrays"].update(weights="policy/coef.npy"),
    "a field too many": lambda p: p["policy"].update(clip=0.5),
    "a part that it has not": lambda p: p["policy"].update(
        parts=[{"kind": "logging", "parameters": {}}]
    ),
    "metadata that is a list": lambda p: p.update(metadata=[["certificate", {}]]),
    "a library that is a list": lambda p: p.update(library=[]),
    "whole numbers written oddly": lambda p: p["policy"].update(
        actions={"type": "integer", "labels": ["1", "0_2"]}
    ),
    "a model out of nowhere": lambda p: p["policy"].update(model="policy/coef.npy", sklearn="1"),
}


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_pages_that_are_wrong(path: Path, name: str) -> None:
    if name == "a model out of nowhere":
        rewrite(path, BREAKS[name])
        with pytest.warns(Warning, match="scikit-learn"):
            refused(path)
        return
    rewrite(path, BREAKS[name])
    refused(path)


def npy(shape: str, data: bytes, kind: str = "<f8", fortran: bool = False) -> bytes:
    """An npy file whose header says whatever one likes."""
    header = f"{{'descr': '{kind}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


ARRAYS = {
    "missing": None,
    "empty": b"",
    "noise": b"\x93NUMPY\x01\x00\xff\xffnoise",
    "NaN": array_bytes(np.array([[1.0], [np.nan]])),
    "infinite": array_bytes(np.array([[1.0], [np.inf]])),
    "another shape": array_bytes(np.zeros((3, 1))),
    "one dimension": array_bytes(np.zeros(2)),
    "a shape larger than its bytes": npy("(2, 1000000000000)", b"\0" * 16),
    "a shape smaller than its bytes": npy("(2, 1)", b"\0" * 24),
    "a negative shape": npy("(-2, -1)", b"\0" * 16),
    "objects": npy("(2, 1)", b"\x80\x04K\x01.".ljust(16, b"\0"), "|O"),
    "small numbers": npy("(2, 1)", b"\0" * 8, "<f4"),
    "Fortran order": npy("(2, 1)", b"\0" * 16, fortran=True),
    "code in the header": npy("__import__('os').system('touch hacked')", b"\0" * 16),
    "a newer npy": b"\x93NUMPY\x03\x00" + array_bytes(np.zeros((2, 1)))[8:],
    "a long header": npy("(" + " " * 60_000 + "2, 1)", b"\0" * 16),
}


@pytest.mark.parametrize("name", sorted(ARRAYS))
def test_arrays_that_are_wrong(path: Path, name: str) -> None:
    rewrite(path, nothing, coef=ARRAYS[name])
    refused(
        path, "missing" if name == "missing" else "there are" if "its bytes" in name else "damaged"
    )
    assert not Path("hacked").exists()


def test_parameters_out_of_range(path: Path) -> None:
    EpsilonGreedy(Uniform(["a", "b"]), 0.1).save(path)
    for wrong in (2, -1, "x", None, [0.1]):
        rewrite(path, lambda page, wrong=wrong: page["policy"]["parameters"].update(epsilon=wrong))  # type: ignore[misc]
        refused(path, "damaged")
    Mixture([Uniform(["a"]), Uniform(["a"])], [0.5, 0.5]).save(path)
    rewrite(path, nothing, weights=array_bytes(np.array([0.5, 0.6])))
    refused(path, "shares")
    Tabular([0.5, 0.5], ["a", "b"]).save(path)
    rewrite(path, nothing, probabilities=array_bytes(np.array([[0.5, 0.6]])))
    refused(path, "sum to 1.1")
    for code in (2, -1, True, "0"):
        Constant("a", ["a", "b"]).save(path)
        rewrite(path, lambda page, code=code: page["policy"]["parameters"].update(code=code))  # type: ignore[misc]
        refused(path, "damaged")


def test_zips_that_unpack_to_too_much(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = members(path)
    monkeypatch.setattr("piwo.files.MAX_MEMBERS", 5)
    path.write_bytes(pack(held | {f"more/{i}": b"" for i in range(5)}))
    refused(path, "8 pieces")
    monkeypatch.setattr("piwo.files.MAX_BYTES", 1000)
    path.write_bytes(b"\0" * 1001)
    refused(path, "1001 bytes", "right file")


def test_a_zip_bomb_is_refused_before_it_is_unpacked(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("policy.json", members(path)["policy.json"])
        with file.open("policy/coef.npy", "w", force_zip64=True) as out:
            for _ in range(2**10 + 1):
                out.write(bytes(2**20))
    path.write_bytes(buffer.getvalue())
    assert path.stat().st_size < 2**21

    def unpacking(*_: object) -> bytes:
        raise AssertionError("unpacked")

    monkeypatch.setattr(zipfile.ZipFile, "read", unpacking)
    refused(path, "would unpack to 10747")


def test_a_piece_that_lies_about_its_length(path: Path) -> None:
    data = pack({"policy.json": b" " * 1000})
    for field in (data.index(b"PK\x03\x04") + 22, data.index(b"PK\x01\x02") + 24):
        data = data[:field] + struct.pack("<I", 10) + data[field + 4 :]
    path.write_bytes(data)
    refused(path, "damaged")


def test_a_piece_that_is_there_twice(path: Path) -> None:
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr("policy.json", "{}")
    refused(path, "twice")


def test_locked_and_strangely_packed_zips(path: Path) -> None:
    data = bytearray(path.read_bytes())
    start = data.index(b"PK\x01\x02")
    for at, value in ((8, 1), (10, 99)):  # flags: encrypted; method: unknown
        strange = bytearray(data)
        strange[start + at] = value
        path.write_bytes(strange)
        refused(path, "damaged")


@pytest.mark.parametrize("depth", [21, 300, 50_000])
def test_policies_nested_without_end(path: Path, depth: int) -> None:
    entry: Page = {
        "kind": "uniform",
        "parameters": {},
        "actions": {"type": "text", "labels": ["a"]},
    }
    for _ in range(depth):
        entry = {"kind": "epsilon-greedy", "parameters": {"epsilon": 0.1}, "parts": [entry]}
    if depth < 1000:
        rewrite(path, lambda page: page.update(policy=entry))
    else:
        path.write_bytes(pack({"policy.json": b'{"parts": [' * depth + b"1" + b"]}" * depth}))
    refused(path, "nested too deeply")


def test_policies_nested_deeper_than_anyone_means_are_not_saved(path: Path) -> None:
    policy: Policy = Uniform(["a"])
    for _ in range(20):
        policy = EpsilonGreedy(policy, 0.1)
    policy.save(path)
    assert repr(load(path)) == repr(policy)
    with pytest.raises(UsageError, match="20 deep"):
        EpsilonGreedy(policy, 0.1).save(path)


# --- models


@pytest.fixture
def model_path(tmp_path: Path) -> Path:
    from sklearn.tree import DecisionTreeClassifier

    path = tmp_path / "model.piwo"
    model = DecisionTreeClassifier().fit([[0.0], [1.0], [2.0]], ["a", "b", "a"])
    Classifier(model, ["a", "b"]).save(path)
    return path


def change_model(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Change the pieces inside the skops file."""
    held = members(path)
    name = next(x for x in held if x.endswith(".skops"))
    with zipfile.ZipFile(io.BytesIO(held[name])) as file:
        inner = {x: file.read(x) for x in file.namelist()}
    change(inner)
    held[name] = pack(inner)
    path.write_bytes(pack(held))


def test_models_of_other_types_are_refused_by_name(model_path: Path, tmp_path: Path) -> None:
    target = tmp_path / "hacked"

    def swap(
        module: str, name: str, loader: str, **more: object
    ) -> Callable[[dict[str, bytes]], None]:
        def change(inner: dict[str, bytes]) -> None:
            schema = json.loads(inner["schema.json"])
            node = {
                "__class__": name,
                "__module__": module,
                "__loader__": loader,
                "__id__": 987654,
                **more,
            }
            schema["content"]["content"]["ccp_alpha"] = node
            inner["schema.json"] = json.dumps(schema).encode()

        return change

    text = {"__class__": "str", "__module__": "builtins", "__loader__": "JsonNode", "is_json": True}
    argument = {**text, "content": json.dumps(f"open({str(target)!r}, 'w')")}
    arguments = {
        "__class__": "tuple",
        "__module__": "builtins",
        "__loader__": "TupleNode",
        "content": [argument],
    }
    original = model_path.read_bytes()
    for module, name in (
        ("builtins", "eval"), ("os", "system"), ("numpy.testing._private.utils", "runstring"),
        ("sklearn.utils", "x"),
        ("sklearn.datasets._base", "load_files"), ("subprocess", "Popen"),
        ("piwo.policies.files", "load"),
    ):  # fmt: skip
        for loader, more in (
            ("ConstructorFromReduceNode", {"content": arguments}),
            ("FunctionNode", {}),
            ("TypeNode", {}),
        ):
            model_path.write_bytes(original)
            change_model(model_path, swap(module, name, loader, **more))
            refused(model_path, f"{module}.{name}", "not loaded from files")
    assert not target.exists()


def test_damaged_models(model_path: Path) -> None:
    original = model_path.read_bytes()
    changes: list[Callable[[dict[str, bytes]], object]] = [
        lambda inner: inner.pop("schema.json"),
        lambda inner: inner.pop("1.npy"),
        lambda inner: inner.update({"schema.json": b"{"}),
        lambda inner: inner.update({"schema.json": b"[" * 100_000}),
        lambda inner: inner.update({"schema.json": b'{"protocol": 99}'}),
        lambda inner: inner.update({"1.npy": b"noise"}),
    ]
    for change in changes:
        model_path.write_bytes(original)
        change_model(model_path, change)  # type: ignore[arg-type]
        refused(model_path, "damaged")
    held = members(model_path)
    model_path.write_bytes(
        pack({name: b"PK" if name.endswith(".skops") else x for name, x in held.items()})
    )
    refused(model_path, "damaged")


def test_a_model_that_unpacks_to_too_much(
    model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A bomb within: the outer zip holds the inner one as it is, which is small.
    change_model(model_path, lambda inner: inner.update({"9.npy": bytes(2**25)}))
    monkeypatch.setattr("piwo.files.MAX_BYTES", 2**24)
    refused(model_path, "would unpack to")


def test_trees_that_point_outside_are_refused(model_path: Path) -> None:
    held = members(model_path)
    with zipfile.ZipFile(
        io.BytesIO(next(x for n, x in held.items() if n.endswith(".skops")))
    ) as file:
        names = [x for x in file.namelist() if x.endswith(".npy")]
        tables = {x: np.load(io.BytesIO(file.read(x))) for x in names}
    name, nodes = next((x, a) for x, a in tables.items() if a.dtype.names)
    original = model_path.read_bytes()
    for column, value in (
        ("left_child", 10**6),
        ("left_child", -7),
        ("right_child", 0),
        ("feature", 10**6),
        ("feature", -5),
        ("left_child", 0),
    ):
        wrong = nodes.copy()
        wrong[column][0] = value
        buffer = io.BytesIO()
        np.save(buffer, wrong)
        changed = buffer.getvalue()
        model_path.write_bytes(original)
        change_model(model_path, lambda inner, data=changed: inner.update({name: data}))  # type: ignore[misc]
        refused(model_path, "point outside")


def test_boosted_trees_that_point_outside_are_refused(tmp_path: Path) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    path = tmp_path / "boosted.piwo"
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=200), rng.integers(0, 3, 200)])
    model = HistGradientBoostingClassifier(max_iter=2, categorical_features=[1]).fit(
        x, rng.choice(["a", "b"], 200)
    )
    policy = Classifier(model, ["a", "b"])
    policy.save(path)
    np.testing.assert_array_equal(load(path).probabilities(x), policy.probabilities(x))
    predictor = model._predictors[0][0]
    original = predictor.nodes.copy()
    for column, value in (("left", 10**6), ("right", 0), ("feature_idx", -1), ("feature_idx", 2)):
        predictor.nodes[:] = original
        predictor.nodes[column][0] = value
        saved_unchecked(policy, path)
        refused(path, "point outside")
    predictor.nodes[:] = original
    predictor.nodes["is_categorical"][0], predictor.nodes["bitset_idx"][0] = 1, 77
    saved_unchecked(policy, path)
    refused(path, "categories point outside")


def test_a_forest_whose_trees_know_more_columns_than_it_is_refused(tmp_path: Path) -> None:
    from sklearn.ensemble import RandomForestClassifier

    path = tmp_path / "forest.piwo"
    x = np.random.default_rng(0).normal(size=(100, 3))
    y = np.where(x[:, 2] > 0, "a", "b")
    forest = RandomForestClassifier(2, random_state=0).fit(x, y)
    forest.n_features_in_ = 2
    saved_unchecked(Classifier(forest, ["a", "b"]), path)
    refused(path, "point outside")


def test_the_list_names_classes_of_scikit_learn_and_one_function() -> None:
    import importlib
    import inspect

    from sklearn.utils import all_estimators

    known = dict(all_estimators())
    for module, names in ESTIMATORS.items():
        for name in names.split():
            if name in known:
                assert known[name].__module__.split(".")[1] == module, name
                assert hasattr(known[name], "fit"), name
    functions = []
    for name in " ".join(PLAIN.values()).split():
        module, _, last = name.rpartition(".")
        if module == "numpy":  # types of numbers; asking an old NumPy for new ones warns
            continue
        found = getattr(importlib.import_module(module), last, None)
        if found is not None and not inspect.isclass(found):
            functions.append(name)
    assert functions == ["sklearn.utils.validation.check_array"]


# --- models that would crash the process


def saved_unchecked(policy: Classifier, path: Path) -> None:
    """Write a model that saving would refuse."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("piwo.policies.models.check_fitted", lambda model: None)
        patch.setattr("piwo.policies.models.check_schema", lambda schema, members: None)
        policy.save(path)


def forest() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    x = np.random.default_rng(0).normal(size=(100, 3))
    y = np.where(x[:, 2] > 0, "a", "b")
    return RandomForestClassifier(2, random_state=0).fit(x, y)


def test_a_tree_with_two_owners_is_checked_for_each(tmp_path: Path) -> None:
    from sklearn.ensemble import VotingClassifier

    path = tmp_path / "shared.piwo"
    wide, narrow = forest(), forest()
    # The tree reads column 2, which its second owner never gets; the first one is seen first.
    narrow.n_features_in_ = 1
    narrow.estimators_ = wide.estimators_
    x = np.zeros((4, 3))
    both = VotingClassifier([("a", wide), ("b", narrow)], voting="soft").fit(x, ["a", "b"] * 2)
    both.estimators_ = [wide, narrow]
    saved_unchecked(Classifier(both, ["a", "b"]), path)
    refused(path, "point outside")
    owner = forest()
    owner.estimators_[1].tree_ = wide.estimators_[0].tree_
    owner.estimators_[1].n_features_in_ = 1
    saved_unchecked(Classifier(owner, ["a", "b"]), path)
    refused(path, "point outside")
    with pytest.raises(UsageError, match="would not be loaded"):
        Classifier(owner, ["a", "b"]).save(path)


def test_trees_whose_owner_reads_any_columns_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wide.piwo"
    for change in ("forest", "tree"):
        model = forest()
        owner = model if change == "forest" else model.estimators_[0]
        policy = Classifier(model, ["a", "b"])
        del owner.n_features_in_
        saved_unchecked(policy, path)
        refused(path, "does not say how many columns")


def tree_node(inner: dict[str, bytes]) -> tuple[Page, Page]:
    """The description of a model, and its first tree."""
    schema = json.loads(inner["schema.json"])
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if part.get("__loader__") == "TreeNode":
                return schema, part
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    raise AssertionError("no tree")


@pytest.mark.parametrize("name", ["node_count", "outputs", "classes", "values", "another object"])
def test_trees_of_other_sizes_than_they_say_are_never_made(model_path: Path, name: str) -> None:
    def change(inner: dict[str, bytes]) -> None:
        schema, tree = tree_node(inner)
        _, classes, outputs = tree["__reduce__"]["args"]["content"]
        state = tree["content"]["content"]
        buffer = io.BytesIO()
        if name == "node_count":
            state["node_count"]["content"] = "1000000"
        elif name == "outputs":
            outputs["content"] = "1000000000"
        elif name == "classes":
            np.save(buffer, np.array([10**9]))
            inner[classes["file"]] = buffer.getvalue()
        elif name == "values":
            np.save(buffer, np.zeros((1, 1, 1)))
            inner[state["values"]["file"]] = buffer.getvalue()
        else:
            # The second object of a number would not be looked at.
            other = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
            schema["content"]["content"]["extra"] = {
                **other,
                "content": [],
                "__id__": tree["__id__"],
            }
        inner["schema.json"] = json.dumps(schema).encode()

    change_model(model_path, change)
    refused(model_path, "one number" if name == "another object" else "other sizes")


def test_neighbors_whose_arrays_do_not_fit_are_refused(tmp_path: Path) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    path = tmp_path / "near.piwo"
    x, y = np.random.default_rng(0).normal(size=(20, 2)), ["a", "b"] * 10
    changes: list[Callable[[Any], object]] = [
        lambda model: setattr(model, "_fit_X", np.zeros((20, 1))),
        lambda model: setattr(model, "_y", np.full(20, 10**6)),
        lambda model: setattr(model, "_y", np.zeros(3, int)),
        lambda model: setattr(model, "n_neighbors", 10**6),
        lambda model: setattr(model, "effective_metric_", "mahalanobis"),
    ]
    for change in changes:
        model = KNeighborsClassifier(3, algorithm="brute").fit(x, y)
        policy = Classifier(model, ["a", "b"])
        policy.save(path)
        np.testing.assert_array_equal(load(path).probabilities(x), policy.probabilities(x))
        change(model)
        saved_unchecked(policy, path)
        refused(path, "neighbors have arrays that do not fit")


def test_boosted_models_with_another_number_of_trees_are_refused(tmp_path: Path) -> None:
    from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier

    path = tmp_path / "boosted.piwo"
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.choice(["a", "b"], 60)
    model = GradientBoostingClassifier(n_estimators=3).fit(x, y)
    policy = Classifier(model, ["a", "b"])
    policy.save(path)
    np.testing.assert_array_equal(load(path).probabilities(x), policy.probabilities(x))
    model.estimators_ = np.repeat(model.estimators_, 5, axis=1)
    saved_unchecked(policy, path)
    refused(path, "another number of trees")
    hist = HistGradientBoostingClassifier(max_iter=2).fit(x, y)
    policy = Classifier(hist, ["a", "b"])
    hist._bin_mapper.is_categorical_ = np.zeros(1, np.uint8)
    saved_unchecked(policy, path)
    refused(path, "another number of columns")


def test_one_hot_encoders_say_how_many_columns_they_make(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    path = tmp_path / "hot.piwo"
    x = np.array([[0.0], [1.0], [2.0]] * 5)
    model = make_pipeline(OneHotEncoder(), LogisticRegression()).fit(x, ["a", "b", "a"] * 5)
    policy = Classifier(model, ["a", "b"])
    policy.save(path)
    np.testing.assert_array_equal(load(path).probabilities(x), policy.probabilities(x))
    model[0]._n_features_outs = [1]
    saved_unchecked(policy, path)
    refused(path, "another number of columns")


@pytest.mark.parametrize("kind", ["filename", "content", "svm"])
def test_models_that_are_not_listed_are_refused(tmp_path: Path, kind: str) -> None:
    import skops.io
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    path = tmp_path / "model.piwo"
    Classifier(DecisionTreeClassifier().fit([[0.0], [1.0]], ["a", "b"]), ["a", "b"]).save(path)
    model: Any = SVC().fit([[0.0], [1.0]], ["a", "b"])
    if kind != "svm":
        text = CountVectorizer(input=kind)
        if kind == "content":
            text.fit(["aa bb"])
        model = make_pipeline(text, DecisionTreeClassifier())
    held = members(path)
    name = next(x for x in held if x.endswith(".skops"))
    path.write_bytes(pack({**held, name: skops.io.dumps(model)}))
    refused(path, "not loaded from files", "ONNX", "policies.Function")
    if kind == "svm":
        with pytest.raises(UsageError, match=r"SVC.*ONNX"):
            Classifier(model, ["a", "b"]).save(path)


def test_a_good_file_is_still_read(path: Path) -> None:
    policy: Policy = LinearGreedy([[1.0]], [0.0], ["a"])
    policy.save(path)
    rewrite(path, nothing)
    assert load(path).actions == policy.actions
