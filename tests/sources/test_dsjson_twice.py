"""dsjson: keys that the entries of lists hold twice, and numbers that no float64 holds."""

import json
from pathlib import Path
from typing import Any

import pytest

import piwo
from piwo.errors import DataError

EVENT = (
    '{"_label_cost":-1,"_label_probability":0.75,"_label_Action":2,"_labelIndex":1,"a":[2,1],'
    '"p":[0.75,0.25],"c":{"U":{"x":3},"_multi":[{"id":"k","a":{"b":1}},{"id":"l","a":{"b":2}}]}}'
)
CCB = (
    '{"c":{"u":{"x":1},"_multi":[{"id":"k"},{"id":"l"}],"_slots":[{"_inc":[0,1]},{}]},"_outcomes":['
    '{"_label_cost":-1,"_a":[1],"_p":[0.5]},{"_label_cost":0,"_a":[0],"_p":[0.5]}]}'
)


def second(path: Path, text: str, old: str, new: str) -> Path:
    """A file whose second line has a change."""
    assert old in text
    json.loads(text.replace(old, new, 1))
    path.write_text(f"{text}\n{text.replace(old, new, 1)}\n")
    return path


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"b":1', '"b":1,"b":7', "a/b"),
        ('"b":1', '"b":1,"\\u0062":7', "a/b"),
        ('"a":{"b":1}', '"a":{"b":1},"a":{"b":7}', "a"),
        # one entry has it twice, and the other one not at all
        ('"b":1}},{"id":"l","a":{"b":2}}', '"b":1,"b":7}},{"id":"l","a":{}}', "a/b"),
    ],
)
def test_a_feature_that_an_entry_holds_twice_is_refused(
    old: str, new: str, key: str, tmp_path: Path
) -> None:
    path = second(tmp_path / "log.dsjson", EVENT, old, new)
    with pytest.raises(DataError, match=rf"has c/_multi/\*/{key} twice in 1 line \(.*, line 2\)"):
        piwo.read(path, items=["a/b"])
    # what is not read is no matter
    assert len(piwo.read(path, context="U/x", actions=["k", "l"])) == 2


def test_a_name_in_a_text_or_elsewhere_is_no_key_of_the_entry(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    path.write_text(EVENT.replace('"id":"k"', '"id":"b","c":{"b":1},"d":"\\"b\\":"') + "\n")
    assert len(piwo.read(path, items=["a/b"])) == 1


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ('"id":"k"', '"id":"k","id":"z"', "_multi/\\*/id"),
        ('"_inc":[0,1]', '"_inc":[0,1],"_inc":[1]', "_slots/\\*/_inc"),
    ],
)
def test_slates_refuse_them_too(old: str, new: str, key: str, tmp_path: Path) -> None:
    path = second(tmp_path / "log.dsjson", CCB, old, new)
    with pytest.raises(DataError, match=rf"has c/{key} twice in 1 line \(.*, line 2\)"):
        piwo.slates.read(path, items_label="id")


def test_an_entry_of_two_slots_is_refused(tmp_path: Path) -> None:
    text = (
        '{"_label_cost":-1,"c":{"_multi":[{"_slot_id":0},{"_slot_id":1}],"_slots":[{},{}]},'
        '"_outcomes":[{"_a":[0],"_p":[0.5]},{"_a":[0],"_p":[1]}]}'
    )
    path = second(tmp_path / "log.dsjson", text, '"_slot_id":1', '"_slot_id":1,"_slot_id":0')
    with pytest.raises(DataError, match=r"has c/_multi/\*/_slot_id twice in 1 line \(.*, line 2\)"):
        piwo.slates.read(path)


@pytest.mark.parametrize("number", ["1e999", "-1e999", "Infinity"])
def test_an_infinite_context_is_refused_when_it_is_read(number: str, tmp_path: Path) -> None:
    readers: list[tuple[Any, str, str, str]] = [
        (piwo.read, EVENT, '"x":3', "U/x"),
        (piwo.slates.read, CCB, '"x":1', "u/x"),
    ]
    for read, text, old, context in readers:
        path = tmp_path / "log.dsjson"
        path.write_text(f"{text}\n{text.replace(old, old[:4] + number)}\n")
        words = rf"has an infinite number at c/{context} \(context\) in 1 line \(.*, line 2\)"
        with pytest.raises(DataError, match=words):
            read(path, context=context)
        assert len(read(path)) == 2


def test_an_infinite_feature_of_a_text_is_refused_when_it_is_read(tmp_path: Path) -> None:
    block = "ccb shared |u x:{}\nccb action |a a\nccb action |a b\nccb slot 1:-1:0.5 |\n\n"
    path = tmp_path / "log.vw"
    path.write_text(block.format(1) + block.format("1e999"))
    with pytest.raises(DataError, match=r"the feature 'x:1e999', an infinite number, in 1 line"):
        piwo.slates.read(path, context="u/x")
