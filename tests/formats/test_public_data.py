"""Published logs in the layout of their authors: small files, values by hand, what is refused."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from piwo.errors import DataError, FileError, PiwoWarning, UsageError
from piwo.evaluation import evaluate
from piwo.formats import read_criteo, read_kuairand, read_open_bandit
from piwo.logs import read
from piwo.policies import Column, Constant


def written(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


OBD = (
    ",timestamp,item_id,position,click,propensity_score,user_feature_0,user-item_affinity_0",
    "0,2019-11-24 00:00:20.517332+00:00,2,3,1,0.25,81ce,0.5",
    "1,2019-11-24 00:00:20.753524+00:00,0,1,0,0.5,81ce,0.0",
    "2,2019-11-24 00:00:21.753524+00:00,10,3,1,0.125,03a5,1.0",
)


def test_open_bandit_data_by_hand(tmp_path: Path) -> None:
    path = written(tmp_path / "all.csv", *OBD)
    log = read_open_bandit(path)
    assert log.actions.labels == ("0", "10", "2")
    assert evaluate(log, Constant("10", log.actions)).value == pytest.approx(8 / 3)
    written(
        tmp_path / "item_context.csv", ",item_id,item_feature_0", *(f"{i},{i},0" for i in range(12))
    )
    log = read_open_bandit(path, position=3, affinities=True)
    assert log.actions.labels == tuple(map(str, range(12)))
    assert len(log) == 2
    assert log.features is not None
    assert log.features.names[-1] == "user-item_affinity_0"
    assert evaluate(log, Constant("10", log.actions)).value == pytest.approx(8 / 2)
    written(tmp_path / "item_context.csv", "x", "1")
    with pytest.raises(FileError, match="no column 'item_id'"):
        read_open_bandit(path)
    (tmp_path / "item_context.csv").unlink()
    with pytest.raises(DataError, match="'propensity_score'"):
        read_open_bandit(written(tmp_path / "other.csv", "item_id,click", "1,1"))
    with pytest.raises(UsageError, match="path of a file"):
        read_open_bandit("select 1")


def test_the_real_sample_is_read_as_its_parquet_copy(tmp_path: Path, shared_data: Path) -> None:
    table = pq.read_table(shared_data / "obd_random_all.parquet")
    pa.csv.write_csv(table, tmp_path / "all.csv")
    log = read_open_bandit(tmp_path / "all.csv")
    copy = read(
        str(shared_data / "obd_random_all.parquet"),
        action="item_id",
        reward="click",
        propensity="propensity_score",
    )
    for label in (14, 3):
        expected = evaluate(copy, Constant(label, copy.actions)).value
        assert evaluate(log, Constant(str(label), log.actions)).value == pytest.approx(expected)


KUAIRAND = (
    "user_id,video_id,date,hourmin,time_ms,is_click,is_like,play_time_ms,is_rand,tab",
    "0,007,20220422,900,1650589200000,1,0,5000,1,1",
    "0,8,20220422,1000,1650592800000,0,1,0,1,4",
    "1,8,20220423,1100,1650682800000,1,0,100,0,1",
    "2,7,20220423,1100,1650682800000,1,0,100,1,1",
)


def test_kuairand_by_hand(tmp_path: Path) -> None:
    path = written(tmp_path / "log_random.csv", *KUAIRAND)
    with pytest.warns(PiwoWarning, match="1 of 4 rows were not shown at random"):
        log = read_kuairand(path, candidates=4)
    assert log.actions.labels == ("007", "7", "8")
    assert log.columns.unit == "user_id"
    # user 0 has two rows, of which one counts 4, user 1 none, user 2 none
    assert evaluate(log, Constant("007", log.actions)).value == pytest.approx((4 / 2) / 2)
    users = written(tmp_path / "users.csv", "user_id,user_active_degree,tab", "2,low,9", "0,full,9")
    with pytest.warns(PiwoWarning, match="1 of 4"):
        log = read_kuairand(
            path,
            reward="play_time_ms",
            reward_range=(0, 10_000),
            users=users,
            context=["user_active_degree", "tab"],
        )
    assert log.features is not None
    assert log.features.names == ("user_active_degree=full", "user_active_degree=low", "tab")
    rows = []
    for batch in log.each_batch(context=True):
        assert set(batch.propensity.tolist()) == {1 / 7583}
        assert batch.context is not None
        rows += batch.context.tolist()
    assert sorted(rows) == [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 0.0, 4.0]]


def test_what_kuairand_files_must_hold(tmp_path: Path) -> None:
    path = written(tmp_path / "log.csv", KUAIRAND[0], KUAIRAND[3])
    with pytest.raises(DataError, match=r"no row of .* was shown at random"):
        read_kuairand(path)
    with pytest.raises(UsageError, match="candidates is 0; expected a whole number of at least 1"):
        read_kuairand(path, candidates=0)
    with pytest.raises(DataError, match="has no column 'video_id'; it has user_id, x"):
        read_kuairand(written(tmp_path / "x.csv", "user_id,x", "1,2"))
    with pytest.raises(DataError, match="has no column 'is_rand'"):
        read_kuairand(written(tmp_path / "x.csv", "user_id,video_id,is_click", "1,2,0"))
    path = written(tmp_path / "log.csv", *KUAIRAND)
    with pytest.raises(DataError, match="has no column 'is_liked'"):
        read_kuairand(path, reward="is_liked")
    with pytest.raises(DataError, match="3 videos that were shown at random, more than the 2"):
        read_kuairand(path, candidates=2)
    users = written(tmp_path / "users.csv", "user_id,degree", "2,low", "0,full", "2,low")
    with (
        pytest.warns(PiwoWarning, match="1 of 4"),
        pytest.raises(DataError, match="has user '2' more than once"),
    ):
        read_kuairand(path, users=users)


CRITEO = (
    "10 |l 0.999 |p 2.5 |f 0:300 1:600 2:1",
    "10 |f 0:300 1:600 3:1",
    "11 |l 0.001 |p 4.0 |f 0:300 1:600 2:1",
    "11 |f 0:300 1:600 4:1",
    "11 |f 0:300 1:600 5:1",
    "12 |l 0.999 |p 1.25 |f 0:300 1:600 2:1",
)


def test_criteo_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress("\n".join(CRITEO).encode()))

    def second(candidates: Any) -> list[float]:
        chances = [0.25, 0.75, 0.0][: len(candidates)]
        return [x / sum(chances) for x in chances]

    log = read_criteo(path, policies={"second": second})
    # the challenge: sum of the weights of clicks over clicks + 10 for each other impression
    assert evaluate(log, Column("uniform")).value == pytest.approx((4 / 3) / 21)
    assert evaluate(log, Column("second")).value == pytest.approx((4 / 4) / 21)
    batch = next(log.each_batch())
    assert batch.weight is not None
    assert batch.weight.tolist() == [10.0, 1.0, 10.0]
    assert batch.policies["second"].tolist() == [0.25, 0.25, 1.0]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("13 |l 0.5 |p 2 |f 0:1", "the label 0.5, expected"),
        ("13 |l 0.001 |p 0.5 |f 0:1", "the inverse propensity 0.5"),
        ("13 |l 0.001 |f 0:1", r"no number after \|p"),
        ("13 |l 0.001 |p 2", "a line without features"),
        ("13 |l 0.001 |p 2 |f a:1", "the feature 'a:1'"),
        ("13 |l 0.001 |p 2 |f 1_0:1", "the feature '1_0:1'"),
        ("13 |l 0.001 |p 2_0 |f 0:1", r"no number after \|p"),
        ("12 |l 0.001 |p 2 |f 0:1", "a label on a line that is not its first"),
    ],
)
def test_broken_criteo_lines_are_named(line: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "train.txt", *CRITEO, line)
    with pytest.raises(DataError, match=rf"{message}.* in 1 line \(.*train.txt, line [67]\)"):
        read_criteo(path)


def halves(candidates: Any) -> list[float]:
    return [0.5] * len(candidates)


def test_criteo_impressions_without_labels_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "test.txt", *CRITEO, "13 |f 0:1", "13 |f 0:2")
    with pytest.warns(PiwoWarning, match="1 impressions have no label"):
        log = read_criteo(path)
    assert log.source.skipped == {"no label": 1}  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"policy 'x' returned probabilities of shape \(1,\)"):
        read_criteo(path, policies={"x": lambda _: [1.0]})
    with pytest.raises(DataError, match=r"train.txt', line 3: policy 'x' gave .* the sum 1.5"):
        read_criteo(path.rename(tmp_path / "train.txt"), policies={"x": halves})
