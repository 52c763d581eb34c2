"""CSV: every line of a file is a row of the log, or the file is refused with file and line."""

import gzip
from pathlib import Path

import pytest

from piwo.cli.policy import read_contexts
from piwo.errors import DataError, PiwoError, PiwoWarning, UsageError
from piwo.logs import Feature, Features, Log, read

HEAD = "action,reward,propensity\n"


def written(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    return str(path)


def rows(log: Log) -> int:
    return sum(len(x) for x in log.each_batch())


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (HEAD + "a,1,0.5\n" * 10 + "action,reward,propensity,user\n" + "b,0,0.5,9\n" * 20, 12),
        (HEAD + "b,0,0.5\n" * 300 + "#tag,1\n" + "b,0,0.5\n" * 300, 302),
        (HEAD + '"a,1,0.5\n' + "b,1,0.5\n" * 3, 2),
        (HEAD + "a,1,0.5\nb,1", 3),
        (HEAD + "a,1,0.5\n" * 100_000 + "b,1,0.5,7\n", 100_002),
        (HEAD + '"a"x,1,0.5\n', 2),
    ],
)
def test_a_line_that_is_no_row_is_named(text: str, line: int, tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", text)
    with pytest.raises(DataError) as refused:
        rows(read(path))
    message = str(refused.value)
    assert f"line {line} of {path!r}" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "text", ["# by me\n# today\n" + HEAD + "a,1,0.5\n" * 9, "\n" + HEAD + "a,1,0.5\n"]
)
def test_lines_before_the_header_are_not_skipped(text: str, tmp_path: Path) -> None:
    with pytest.raises(DataError):
        rows(read(written(tmp_path / "log.csv", text)))


def test_mixed_line_ends_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line ends"):
        rows(read(written(tmp_path / "log.csv", HEAD + "a,1,0.5\n" * 5000 + "a,1,0.5\r\n" * 5000)))


@pytest.mark.parametrize("count", [1, 3, 50_000])
@pytest.mark.parametrize(
    ("name", "head", "row"),
    [
        ("log.csv", HEAD, "a,1,0.5\n"),
        ("log.csv", HEAD, '"a\nb",1,0.5\n'),
        ("log.csv", "\ufeff" + HEAD, "a,1,0.5\n"),
        ("log.csv", HEAD.replace("\n", "\r\n"), "a,1,0.5\r\n"),
        ("log.csv", HEAD.replace(",", ";"), 'a,b;1;"0.5"\n'),
        ("log.csv", HEAD.replace(",", "|"), "a,b|1|0.5\n"),
        ("log.tsv", HEAD.replace(",", "\t"), "a,b\t1\t0.5\n"),
        ("log.csv", HEAD, "#a,1,0.5\n"),
        ("log.csv.gz", HEAD, "a,1,0.5\n"),
    ],
)
def test_every_line_is_a_row(name: str, head: str, row: str, count: int, tmp_path: Path) -> None:
    path, text = tmp_path / name, (head + row * count).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert rows(read(path)) == count


def test_single_quotes_are_part_of_a_label(tmp_path: Path) -> None:
    log = read(written(tmp_path / "log.csv", HEAD + "'tis',1,0.5\n" * 5))
    assert log.actions.labels == ("'tis'",)


@pytest.mark.parametrize(
    "names", ["action,reward,propensity,reward", "action,reward,propensity,Reward"]
)
def test_doubled_names_in_a_header(names: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'reward' and '(r|R)eward'"):
        read(written(tmp_path / "log.csv", names + "\na,1,0.5,0\n"))


@pytest.mark.parametrize("doubled", ["reward", "Reward"])
def test_doubled_keys_in_json(doubled: str, tmp_path: Path) -> None:
    line = f'{{"action":"a","reward":1,"propensity":0.5,"{doubled}":0}}\n'
    with pytest.raises(DataError, match=f"'reward' and '{doubled}'"):
        read(written(tmp_path / "log.jsonl", line))


def test_types_of_context_columns_are_decided_by_all_rows(tmp_path: Path) -> None:
    head = "action,reward,propensity,age,new,zip,code\n"
    text = head + "a,1,0.5,1,true,x,1\n" * 30_000 + "b,1,0.5,2.5,false,y,1_0\n" * 3000
    log = read(written(tmp_path / "log.csv", text), context=["age", "new", "zip", "code"])
    with pytest.warns(PiwoWarning, match="'code' holds numbers in 30,000 rows and text in 3,000"):
        assert log.features is not None
    assert [x.kind for x in log.features.items] == ["number", "number", "levels", "levels"]


def test_files_with_columns_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    written(tmp_path / "1.csv", HEAD + "a,1,0.5\n")
    written(tmp_path / "2.csv", "propensity;action;reward\n0.25;b;0\n")
    batches = list(read(str(tmp_path / "*.csv")).each_batch())
    rows = [(p, r) for x in batches for p, r in zip(x.propensity, x.reward, strict=True)]
    assert rows == [(0.5, 1), (0.25, 0)]
    written(tmp_path / "3.csv", "propensity,action\n0.25,b\n")
    with pytest.raises(DataError, match="'reward' is in"):
        read(str(tmp_path / "*.csv"))


def test_a_file_given_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", HEAD + "a,1,0.5\n")
    (tmp_path / "link.csv").symlink_to(path)
    for twice in ([path, path], [path, str(tmp_path / "l*g.csv")], str(tmp_path / "*.csv")):
        with pytest.raises(UsageError, match="twice"):
            read(twice)


def test_contexts_to_act_on_are_read_by_the_same_rules(tmp_path: Path) -> None:
    features = Features((Feature("age"), Feature("zip", "levels", ("01", "1"))))
    path = written(tmp_path / "users.csv", "zip;age;more\n" + "01;3;'x'\n" * 10)
    assert features.encode(read_contexts(path, features)).tolist() == [[3, 1, 0]] * 10
    written(
        tmp_path / "users.csv", "zip,age\n" + "01,3\n" * 10 + "zip,age,user\n" + "01,3,5\n" * 20
    )
    for needed in (features, None):
        with pytest.raises(PiwoError, match="line 12 of"):
            read_contexts(path, needed)
