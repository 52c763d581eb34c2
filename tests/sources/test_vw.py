"""Vowpal Wabbit's text format: labels, features as columns, what is left out, what is refused; and
the tool's own example files."""

import gzip
import pickle
import re
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError, FileError, PiwoWarning, UsageError
from piwo.evaluation import evaluate
from piwo.learners import PIWO
from piwo.logs import Log, read, read_vw
from piwo.oracles import JointRidge
from piwo.policies import Constant, Uniform
from piwo.sources import lines as pieces
from piwo.sources import spool


def written(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def read_silently(path: Path, **options: Any) -> Log:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_vw(path, **options)


def context_of(log: Log) -> list[list[float]]:
    batch = next(log.each_batch(context=True))
    assert batch.context is not None
    return batch.context.tolist()


BY_HAND = "1:0.2:0.8 | a\n2:1:0.2 | a\n2:0.5:0.25 | b\n1:0:0.5 | b\n"


def test_values_are_those_of_the_formulas_by_hand(tmp_path: Path) -> None:
    log = read_silently(written(tmp_path / "log.vw", BY_HAND), reward_range=(-1, 0))
    # weights of always-1: 1/0.8, 0, 0, 1/0.5; rewards are minus the costs
    first = Constant(1, log.actions)
    assert evaluate(log, first).value == pytest.approx(-(0.2 / 0.8) / 4)
    snips = evaluate(log, first, estimator="snips").value
    assert snips == pytest.approx(-(0.2 / 0.8) / (1 / 0.8 + 1 / 0.5))


def test_the_same_decisions_in_both_layouts(tmp_path: Path) -> None:
    blocks = (
        "shared |u age:3\n0:0.2:0.8 |a tea\n|a cake\n\n"
        "shared |u age:4\n|a tea\n0:1:0.2 |a cake\n\n\n"
        "|a tea\n1:0.5:0.25 |a  cake\n"
    )
    path = written(tmp_path / "b.vw", blocks)
    one = read_silently(path, context="u/age", actions=["tea", "cake"], reward_range=(-1, 0))
    batch = next(one.each_batch())
    assert one.actions.take(batch.action).tolist() == ["tea", "cake", "cake"]
    assert batch.propensity.tolist() == [0.8, 0.2, 0.25]
    assert (batch.reward - 1).tolist() == pytest.approx([-0.2, -1.0, -0.5])
    # the last decision has no context
    assert context_of(one) == [[3.0], [4.0], [0.0]]
    two = read_silently(written(tmp_path / "l.vw", BY_HAND), reward_range=(-1, 0))
    assert next(two.each_batch()).propensity.tolist() == [0.8, 0.2, 0.25, 0.5]


def test_features_are_numbers_or_texts_and_absent_ones_are_zero(tmp_path: Path) -> None:
    text = (
        "1:0:0.5 |user:2 age:3 vip city=Rome |day x:1e1 x:5 | free\n2:0:0.5 |user city=New%20York\n"
    )
    path = written(tmp_path / "log.vw", text)
    names = ["user/age", "user/vip", "user/city", "day/x", "free"]
    log = read_silently(path, context=names)
    assert log.features is not None
    assert log.features.names == (
        "user/age",
        "user/vip",
        "user/city=New York",
        "user/city=Rome",
        "day/x",
        "free",
    )
    # the namespace counts twice, and a feature that is there twice is added up
    assert context_of(log) == [[6.0, 2.0, 0.0, 1.0, 15.0, 1.0], [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]


def test_a_text_that_is_not_there_is_missing(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", "1:0:0.5 |u c=a\n2:0:0.5 |u\n")
    with pytest.raises(DataError, match="missing"):
        list(read_silently(path, context="u/c").each_batch(context=True))
    log = read(path, context="u/c", missing="indicator")
    with pytest.warns(PiwoWarning, match="'u/c' in 1 row"):
        features = log.features
    assert features is not None
    assert features.names == ("u/c=a", "u/c is missing")


def test_whole_namespaces_are_hashed(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", "1:0:0.5 | tea cake:2\n2:0:0.5 | tea |u x\n")
    log = read_silently(path, context=["*", "u/*"], hash_size=8)
    rows = context_of(log)
    assert [len(x) for x in rows] == [16, 16]
    # the feature tea has the same place and sign in both lines
    place = [abs(x) for x in rows[1][:8]].index(1.0)
    assert rows[0][place] in {rows[1][place], rows[1][place] + 2, rows[1][place] - 2}
    assert sum(map(abs, rows[0][8:])) == 0.0
    assert sum(map(abs, rows[1][8:])) == 1.0


def test_what_is_left_out_is_counted_by_reason(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", "1:0:0.5 | a\n\n | a\n'id | b\n3 | a\n2:0:0.5 't | a\n")
    with pytest.warns(
        PiwoWarning, match=r"4 of 6 are not labeled decisions \(blank 1, no label 3\)"
    ):
        log = read(path)
    assert log.source.skipped == {"blank": 1, "no label": 3}  # type: ignore[attr-defined]
    blocks = "shared | s\n| a\n| b\n\nshared | s\n0:0:0.5 | a\n| b\n"
    with pytest.warns(PiwoWarning, match=r"1 of 2 are not .* \(no label 1\)"):
        assert len(read(written(tmp_path / "b.vw", blocks))) == 1
    with pytest.raises(DataError, match="no line has a label"):
        read(written(tmp_path / "n.vw", " | a\n"))


BROKEN = {
    "1:0 | a": "a cost without the probability",
    "1:0:0.5|a": "takes for a tag",
    "1:0:0.5": "takes for a tag",
    "1:0:0.5 2:1:0.3 | a": "several actions with a probability",
    "a:0:0.5 | a": "expected action:cost:probability",
    "1:x:0.5 | a": "expected numbers",
    "1:1_0:0.5 | a": "expected numbers",
    "1:0:0.5_0 | a": "expected numbers",
    "1:0:\u0661 | a": "expected numbers",
    "4294967295:0:0.5 | a": "has action 4294967295, expected at most 1000000",
    "99999999999999999999:.1:.5 | a": "has action 99999999999999999999, expected at most",
    "1:0:0.5 4294967295 | a": "has action 4294967295, expected at most 1000000",
    "1_0:0:0.5 | a": "expected action:cost:probability",
    "0:0:0.5 | a": "action 0",
    "ccb shared | a": "several slots",
    "slates slot | a": "slate",
    "ca 1:2:0.5 | a": "continuous",
    "1:0:0.5 | a:x": "expected a number after",
    "1:0:0.5 | a:1_0": "expected a number after",
    "1:0:0.5 |:1_0 a": "expected a number after",
    "1:0:0.5 | a=x": "a text in 'a', and others have a number",
}


@pytest.mark.parametrize("line", sorted(BROKEN))
def test_a_broken_line_is_refused_with_its_number(line: str, tmp_path: Path) -> None:
    text = f"1:0:0.5 2 3 | a\n\n{line}\n2:0:0.5 | a\n"
    path = written(tmp_path / "log.vw", text)
    with pytest.raises(DataError) as refused:
        read_vw(path, context="a", kind="cb")
    assert BROKEN[line] in str(refused.value)
    assert "in 1 line (" in str(refused.value)
    assert "line 3)" in str(refused.value)


BROKEN_BLOCKS = {
    "0:0:0.5 | a\n0:1:0.5 | b\n": "several action lines with a cost",
    "0:0:0.5 | a\nshared | s\n| b\n": "a shared line that is not its first",
}


@pytest.mark.parametrize("block", sorted(BROKEN_BLOCKS))
def test_a_broken_block_is_refused_with_its_first_line(block: str, tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", f"shared | s\n0:0:0.5 | a\n| b\n\n{block}")
    with pytest.raises(DataError) as refused:
        read_vw(path)
    assert BROKEN_BLOCKS[block] in str(refused.value)
    assert "line 5)" in str(refused.value)


RAGGED = (
    "shared |u age:3\n0:-1:0.5 |a price:2 tea\n|a price:3 cake\n\n"
    "shared |u age:4\n|a price:1 kind=new\n|a price:5 cake\n0:0:0.25 |a price:4 tea\n"
)


def test_lines_that_change_are_eligible_actions_of_each_row(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", RAGGED)
    with pytest.warns(
        PiwoWarning, match=r"an action is the number of its line; .* \(items_label names"
    ):
        log = read(path, context="u/age")
    assert (log.actions.labels, log.columns.eligible) == ((1, 2, 3), "eligible")
    assert log.source.table["eligible"].to_pylist() == [[1, 2], [1, 2, 3]]  # type: ignore[attr-defined]
    batch = next(log.each_batch())
    assert (batch.action + 1).tolist() == [1, 3]
    # uniform over two, then over three: (1/2)/(1/2) * 1, and nothing is earned in the second row
    assert evaluate(log, Uniform(log.actions)).value == 0.5
    third = Constant(3, log.actions)
    with pytest.raises(DataError, match="eligible"):
        evaluate(log, third)


def test_features_of_lines_are_those_of_the_eligible_actions(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", RAGGED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        log = read_vw(path, context="u/age", items=["a/price", "a/tea"])
    assert log.source.table["items"].to_pylist() == [  # type: ignore[attr-defined]
        [{"a/price": 2.0, "a/tea": 1.0}, {"a/price": 3.0, "a/tea": 0.0}],
        [
            {"a/price": 1.0, "a/tea": 0.0},
            {"a/price": 5.0, "a/tea": 0.0},
            {"a/price": 4.0, "a/tea": 1.0},
        ],
    ]
    assert log.columns.item_features == "items"
    with pytest.raises(DataError, match="no event has a feature 'a/none'"):
        read_vw(path, items="a/none")
    with pytest.raises(UsageError, match="items names features of action lines"):
        read_vw(written(path, "1:0:0.5 | a\n"), items="a")


def test_a_model_of_items_is_learned_from_lines(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    blocks = []
    for _ in range(400):
        sizes = int(random.integers(2, 5))
        prices = random.random(sizes).round(3)
        taken = int(random.integers(sizes))
        cost = -float(random.random() < prices[taken])
        lines = [f"|a price:{x}" for x in prices]
        lines[taken] = f"0:{cost:g}:{1 / sizes} {lines[taken]}"
        blocks.append("shared |u one:1\n" + "\n".join(lines) + "\n")
    path = written(tmp_path / "log.vw", "\n".join(blocks))
    log = read_vw(path, context="u/one", items="a/price")
    policy = PIWO(oracle=JointRidge(), certificate=None).fit(log).policy_
    batch = next(log.each_batch(context=True))
    assert batch.eligible is not None
    # the dearest line is taken, as it sells best in this world
    chances = policy.within(batch.context, batch.eligible)
    prices = batch.eligible.inline["a/price"].to_numpy()  # type: ignore[index]
    for start, end in pairwise(batch.eligible.starts.tolist()):
        assert chances[start:end].argmax() == prices[start:end].argmax()


def test_listed_actions_that_change_are_eligible(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", "1:-1:0.5 2 3 | a\n2:0:0.25 1 | a\n")
    log = read_silently(path)
    assert log.source.table["eligible"].to_pylist() == [[1, 2, 3], [1, 2]]  # type: ignore[attr-defined]
    # (1/3)/(1/2) * 1 over two rows
    assert evaluate(log, Uniform(log.actions)).value == pytest.approx(1 / 3)
    with pytest.raises(DataError, match=r"1 lines of .* list no actions that could be taken"):
        read_vw(written(path, "1:-1:0.5 2 3 | a\n2:0:0.25 1 | a\n2:0:0.25 | a\n"))
    fixed = read_silently(written(path, "1:-1:0.5 2 | a\n2:0:0.25 1 | a\n1:0:0.25 | a\n"))
    assert (fixed.columns.eligible, "eligible" in fixed.source.schema.names) == (None, False)


def test_a_real_file_with_changing_lines(shared_data: Path) -> None:
    path = shared_data / "vw" / "cb_test_medium.ldf"
    with pytest.warns(PiwoWarning):
        log = read_vw(path)
    expected = []
    for block in path.read_text("utf-8").strip().split("\n\n"):
        lines = [x for x in block.split("\n") if not x.startswith("shared")]
        if any(":" in x.partition("|")[0] for x in lines):
            expected.append(len(lines))
    sets = log.source.table["eligible"].to_pylist()  # type: ignore[attr-defined]
    assert list(map(len, sets)) == expected
    assert len(set(expected)) > 1


def test_named_actions_may_have_features_that_change(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", "0:0:0.5 | p:1\n| p:2\n\n0:0:0.5 | p:3\n| p:4\n")
    assert len(read_silently(path, actions=["a", "b"])) == 2
    with pytest.raises(UsageError, match=r"got 3 actions, but the first event .* has 2"):
        read_vw(path, actions=["a", "b", "c"])


def test_labels_are_those_of_1_to_k(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", "3:0:0.5 | a\n1:0:0.5 | a\n")
    assert read_silently(path).actions.labels == (1, 2, 3)
    log = read_silently(path, actions=["x", "y", "z"])
    assert log.actions.take(next(log.each_batch()).action).tolist() == ["z", "x"]
    with pytest.raises(DataError, match="an action above 2, the number of labels"):
        read_vw(path, actions=["x", "y"])
    for line in ("1:0:0.5 3 | a\n", "99999999999999999999:.1:.5 | a\n"):
        with pytest.raises(DataError, match="an action above 2, the number of labels"):
            read_vw(written(path, line), actions=["x", "y"])


def test_small_pieces_gz_windows_lines_and_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\ufeff" + "".join(f"{i % 3 + 1}:{i / 8}:0.25 |u x:{i}\r\n" for i in range(300))
    path = tmp_path / "log.vw.gz"
    path.write_bytes(gzip.compress(text.encode()))
    monkeypatch.setattr(pieces, "_CHUNK", 1000)
    monkeypatch.setattr("piwo.sources.vw.rows_within", lambda width: 64)
    monkeypatch.setattr(spool, "IN_MEMORY", 1000)
    log = read_silently(path, context="u/x", reward_range=(-40, 0))
    assert type(log.source).__name__ == "ParquetSource"
    assert [x[0] for batch in log.each_batch(context=True) for x in batch.context] == list(  # type: ignore[union-attr]
        range(300)
    )
    path.write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(FileError, match="cannot be read"):
        read_vw(path)


def test_wrong_arguments(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", "1:0:0.5 | a\n")
    with pytest.raises(UsageError, match="a vw log, whose lines state action"):
        read(path, propensity="p")
    with pytest.raises(UsageError, match="kind is 'adf'"):
        read_vw(path, kind="adf")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="hash_size"):
        read_vw(path, hash_size=3)
    with pytest.raises(DataError, match="no event has a feature 'u/z'"):
        read_vw(path, context="u/z")


@pytest.mark.parametrize(
    ("name", "actions", "rows", "value"),
    [
        # cost of the rows with action 1, over p, over n: 0/8; (0 + 2 + 0 + 1)/0.5/8; 1/1/5
        ("cb_eval", 2, 8, 0.0),
        ("cb_explore_cover.dat", 2, 8, -0.75),
        ("cb_multi_cost.dat", 4, 5, -0.2),
    ],
)
def test_real_files_of_one_line_a_decision(
    name: str, actions: int, rows: int, value: float, shared_data: Path
) -> None:
    log = read_silently(shared_data / "vw" / name, reward_range=(-4, 0))
    assert (len(log.actions), len(log)) == (actions, rows)
    assert evaluate(log, Constant(1, log.actions)).value == pytest.approx(value)


def test_a_real_file_of_one_line_an_action(shared_data: Path) -> None:
    path = shared_data / "vw" / "cb_load.dat"
    log = read_silently(path, context=["User/user", "User/time_of_day"])
    blocks = [x.split("\n") for x in path.read_text("utf-8").strip().split("\n\n")]
    batch = next(log.each_batch())
    expected = []
    for lines in blocks:
        (place,) = (i for i, line in enumerate(lines) if line.startswith("0:"))
        label = lines[place].split()[0].split(":")
        expected.append((place - 1, -float(label[1]), float(label[2])))
    rewards = batch.reward.tolist()
    assert (
        list(zip(batch.action.tolist(), rewards, batch.propensity.tolist(), strict=True))
        == expected
    )
    assert log.features is not None
    assert log.features.names[:2] == ("User/user=Anna", "User/user=Tom")


def test_words_of_a_real_file_are_hashed(shared_data: Path) -> None:
    path = shared_data / "vw" / "rcv1_raw_cb_small.vw"
    log = read(path, context="*", hash_size=64, reward_range=(-1, 0))
    batch = next(log.each_batch(context=True))
    assert batch.context is not None
    assert batch.context.shape == (1000, 64)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("cs_cb", "a cost without the probability"),
        ("ccb_test.dat", "several slots"),
    ],
)
def test_real_files_of_other_kinds_are_refused(name: str, rule: str, shared_data: Path) -> None:
    with pytest.raises(DataError, match=rule):
        read_vw(shared_data / "vw" / name)


@pytest.mark.parametrize("in_memory", [2**28, 1])
def test_rows_that_break_a_rule_are_named_by_their_lines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, in_memory: int
) -> None:
    """Also of large files, of several files, and where a decision has several lines."""
    monkeypatch.setattr(spool, "IN_MEMORY", in_memory)
    one = written(tmp_path / "one.vw", "1:-1:0.5 | x\n| x\n| x\n1:0:1.2 | x\n2:-1:0.5 | x\n")
    two = written(tmp_path / "two.vw", "2:-1:0.5 | x\n2:-1:1.5 | x\n1:-3:0.5 | x\n")
    blocks = "shared | x\n| a\n| b\n\nshared | x\n0:-1:{} | a\n| b\n\n"
    adf = written(tmp_path / "adf.vw", blocks.format(0.5) + blocks.format(1.2))
    with pytest.warns(PiwoWarning, match="not labeled"):
        both, by_action = read_vw([one, two]), read_vw(adf)
    outside = re.escape(f"in 1 row ({two}, line 3); such as 3;")
    above = re.escape(f"in 2 rows ({one}, line 4; {two}, line 2); prob")
    for log in (both, pickle.loads(pickle.dumps(both))):
        with pytest.raises(DataError, match=f"{outside}.*{above}"):
            evaluate(log, Uniform(log.actions))
    with pytest.raises(DataError, match=re.escape(f"in 1 row ({adf}, line 13); prob")):
        evaluate(by_action, Uniform(by_action.actions))
    many = written(tmp_path / "many.vw", "1:0:1.5 | x\n" * 7)
    with pytest.raises(DataError, match=re.escape(f"in 7 rows ({many}, line 1; ")) as seen:
        list(read_vw(many).each_batch())
    assert "many.vw, line 5; ...); prob" in str(seen.value)


def test_files_that_changed_since_have_rows_and_no_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "log.vw", "1:0:0.5 | x\n1:0:1.5 | x\n")
    log = read_vw(path)
    written(path, "| x\n1:0:0.5 | x\n1:0:1.5 | x\n")
    with pytest.raises(DataError, match=r"in 1 row \(row numbers from 0: 1\)"):
        list(log.each_batch())
    path.unlink()
    with pytest.raises(DataError, match=r"in 1 row \(row numbers from 0: 1\)"):
        list(log.each_batch())
