"""The advice is compared with the index that is built, and each reason is provoked."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

import tailbit
from support.tables import index_of
from tailbit.cli.advice import columns_of_run
from tailbit.cli.main import cli
from tailbit.errors import UsageError
from tailbit.index.advice.advise import Advice, AdviceReason, ColumnAdvice
from tailbit.index.advice.estimate import Measure, distinct_keys, estimate
from tailbit.index.postings.encoding import encoding_of

ROWS = 1_200_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Eighteen blocks in three files, of which eight are sampled."""
    rng, path = np.random.default_rng(1), str(tmp_path_factory.mktemp("advise") / "t")
    some = rng.integers(0, 2000, ROWS)
    rows = pa.table(
        {
            "few": rng.integers(0, 3, ROWS),
            "some": pa.array(some),
            "name": pa.array([f"name {x}" for x in some.tolist()]).dictionary_encode().cast(pa.string()),
            "many": rng.integers(0, 100_000, ROWS),
            "own": rng.permutation(ROWS),
            "sorted": np.sort(rng.integers(0, 1000, ROWS)),
            "counted": np.arange(ROWS),
            "one": pa.array(["x"]).take(pa.array(np.zeros(ROWS, np.int8))),
            "none": pa.nulls(ROWS, pa.int32()),
        }
    )
    for start in range(0, ROWS, ROWS // 3):
        write_deltalake(path, rows.slice(start, ROWS // 3), mode="append")
    return path


@pytest.fixture(scope="module")
def advice(table: str) -> Advice:
    return tailbit.open(table).advise()


def of(advice: Advice, column: str) -> ColumnAdvice:
    return next(found for found in advice.every if found.column == column)


def test_bytes_are_foretold_to_a_quarter(table: str, advice: Advice) -> None:
    """Merged segments are as large as those built at once, so one build is the judge."""
    index = index_of(table, [found.column for found in advice.every]).index
    segments = [segment for held in index.state.spaces.values() for segment in held]
    for found in advice.every:
        built = encoding_of(segments, found.column)
        assert found.estimate is not None
        assert 0.75 <= found.estimate.bytes / built.bytes <= 1.25 or built.bytes < 50_000, found


def test_values_are_foretold_to_a_quarter(advice: Advice) -> None:
    known = {"few": 3, "some": 2000, "name": 2000, "many": 100_000, "own": ROWS, "sorted": 1000, "one": 1}
    for column, distinct in known.items():
        found = of(advice, column).estimate
        assert found is not None
        assert 0.75 <= found.distinct / distinct <= 1.25, (column, found)


def test_each_column_has_its_reason(advice: Advice) -> None:
    reasons = {found.column: found.reason for found in advice.every}
    worth = dict.fromkeys(("few", "some", "name", "many", "sorted", "counted"), AdviceReason.WORTH)
    none = dict.fromkeys(("one", "none"), AdviceReason.ONE_VALUE)
    assert reasons == {**worth, **none, "own": AdviceReason.OWN_VALUES}
    assert advice.columns == list(worth)
    assert (advice.rows, advice.sampled_rows) == (ROWS, 8 << 16)
    assert repr(advice) == f"Advice(version=2, rows={ROWS}, columns={advice.columns})"


def test_only_what_is_asked_about_is_advised_where_questions_are_known(table: str) -> None:
    questions = [
        "# what people ask",
        "",
        "own = 17",
        "select few, count(*) from t where own in (1, 2) and (some > 5 or sorted = 1) group by few",
        "SELECT * FROM t;",
        "one = 'where'",
    ]
    found = tailbit.open(table).advise(questions)
    assert found.columns == ["some", "own", "sorted"]
    assert {one.column: one.asked for one in found.every if one.asked} == {
        "some": 1,
        "own": 2,
        "sorted": 1,
        "one": 1,
    }
    assert of(found, "few").reason is AdviceReason.NOT_ASKED
    assert of(found, "one").reason is AdviceReason.ONE_VALUE


@pytest.mark.parametrize("question", ["nonsense = 1", "some = ", "SELECT * FROM t WHERE 'open"])
def test_a_question_that_is_not_understood_is_named_by_its_number(table: str, question: str) -> None:
    with pytest.raises(UsageError, match="question 2"):
        tailbit.open(table).advise(["few = 1", question])


def test_types_without_order_partitions_and_long_texts_are_not_advised(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "p": ["a", "b"] * 10_000,
            "tags": pa.array([["x"]] * 20_000),
            "lists": pa.array([[["x"]]] * 20_000),
            "long": [f"{n}" + "x" * 300 for n in range(20_000)],
            "place": [{"city": f"c{n % 5}"} for n in range(20_000)],
        }
    )
    write_deltalake(str(tmp_path / "t"), rows, partition_by=["p"])
    found = tailbit.open(str(tmp_path / "t")).advise()
    reasons = {one.column: one.reason for one in found.every}
    assert reasons == {
        "p": AdviceReason.PARTITION,
        "tags": AdviceReason.ONE_VALUE,
        "lists": AdviceReason.TYPE,
        "long": AdviceReason.LONG,
        "place.city": AdviceReason.WORTH,
    }
    assert found.columns == ["place.city"]


def test_a_table_without_rows_is_worth_no_index(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"k": pa.array([], pa.int64())}))
    found = tailbit.open(str(tmp_path / "t")).advise()
    assert (found.rows, found.columns) == (0, [])
    assert "no rows" in of(found, "k").why
    ended = CliRunner().invoke(cli, ["run", str(tmp_path / "t"), "--columns", "auto"])
    assert isinstance(ended.exception, UsageError)
    assert "no column" in str(ended.exception)


def test_the_command_prints_a_line_a_column_or_json(table: str, tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("some = 1\nmany = 2\n")
    told = CliRunner().invoke(cli, ["advise", table, "--queries", str(tmp_path / "q.sql")])
    assert told.exit_code == 0, told.output
    lines = told.output.splitlines()
    assert [line.split("\t")[:2] for line in lines[1:4]] == [["few", "no"], ["some", "yes"], ["name", "no"]]
    assert "Advised: some, many; about" in lines[-1]
    as_json = CliRunner().invoke(cli, ["advise", table, "--json"])
    found = json.loads(as_json.output)
    assert found["columns"] == ["few", "some", "name", "many", "sorted", "counted"]
    assert found["advice"][0]["distinct"] == 3


def test_auto_takes_what_is_advised_and_afterwards_what_the_index_remembers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t")
    write_deltalake(
        path, pa.table({"k": range(100), "v": [f"v{n % 7}" for n in range(100)], "one": [1] * 100})
    )
    with click.Context(cli.commands["run"]):
        advised = columns_of_run(path, None, " auto ", None, as_json=False)
        assert "Advised: " in capsys.readouterr().out
        assert advised is not None
        assert "v" in advised
        assert "one" not in advised
        assert columns_of_run(path, None, "`auto`,v", None, as_json=False) == ["`auto`", "v"]
        assert columns_of_run(path, None, "auto", io.StringIO("v = 'v1'"), as_json=True) == ["v"]
        assert capsys.readouterr().out == '{"advised": ["v"]}\n'
        index_of(path, ["one"])
        assert columns_of_run(path, None, "auto", None, as_json=False) is None


def _columns(rng: np.random.Generator, rows: int) -> dict[str, pa.Array]:
    """Columns of every shape that an advice must judge, of a table of so many rows."""
    few = rng.integers(0, rng.integers(1, 9), rows)
    return {
        "few": pa.array(few),
        "status": pa.array([f"s{x}" for x in few.tolist()], pa.string()),
        "some": pa.array(rng.integers(0, max(1, rows // 20), rows)),
        "nearly_own": pa.array(rng.integers(0, max(1, rows), rows)),
        "own": pa.array(rng.permutation(rows)),
        "sorted": pa.array(np.sort(rng.integers(0, max(1, rows // 7), rows))),
        "counted": pa.array(np.arange(rows)),
        "one": pa.array(["x"] * rows, pa.string()),
        "none": pa.nulls(rows, pa.float64()),
        "mostly_null": pa.array(rng.integers(0, 5, rows), mask=rng.random(rows) < 0.99),
        "real": pa.array(rng.random(rows)),
        "huge": pa.array([f"{x}" + "y" * 400 for x in few.tolist()], pa.string()),
        "flag": pa.array(rng.random(rows) < 0.001),
        "hash": pa.array([f"{x:032x}" for x in rng.integers(0, 2**62, rows).tolist()], pa.string()),
    }


@pytest.mark.parametrize("asked", [False, True], ids=["asked nothing", "asked all"])
@pytest.mark.parametrize("rows", [0, 1, 7, 300, 4000, 90_000])
def test_a_column_is_advised_if_and_only_if_its_reason_says_that_it_gains(
    rows: int, asked: bool, tmp_path: Path
) -> None:
    """The sizes of the sentence are read back: the verdict is what they say."""
    columns = _columns(np.random.default_rng(rows), rows)
    write_deltalake(str(tmp_path / "t"), pa.table(columns))
    questions = [f"{name} IS NOT NULL" for name in columns] if asked else None
    units = {"bytes": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
    size = re.compile(r"goes through ([\d.]+) (\w+) of the index.* a scan through ([\d.]+) (\w+)$")
    for advised in tailbit.open(str(tmp_path / "t")).advise(questions).every:
        read = size.search(advised.why)
        if read is None:
            assert not advised.worth, advised
            continue
        by_index, by_scan = float(read[1]) * units[read[2]], float(read[3]) * units[read[4]]
        assert advised.worth == ("no gain" not in advised.why) == (2 * by_index < by_scan), advised


def test_auto_indexes_what_may_gain_later_where_the_table_is_too_small_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"v": [f"v{n % 7}" for n in range(100)], "one": [1] * 100}))
    assert tailbit.open(path).advise().columns == []
    with click.Context(cli.commands["run"]):
        assert columns_of_run(path, None, "auto", None, as_json=False) == ["v"]
    assert "Indexed all the same, for when the table grows: v" in capsys.readouterr().out


def test_rows_are_exact_by_the_log_and_what_a_sample_extrapolates_is_marked(tmp_path: Path) -> None:
    path, rows = str(tmp_path / "t"), 0
    for n in range(12):
        data = pa.table({"v": list(range(rows, rows + 60_000 + n * 1013))})
        write_deltalake(path, data, mode="append")
        rows += len(data)
    advice = tailbit.open(path).advise()
    assert (advice.rows, advice.rows_exact, advice.whole) == (rows, True, False)
    said = CliRunner().invoke(cli, ["advise", path]).stdout.splitlines()
    assert said[1].split("\t")[2].startswith("~")
    assert said[2].startswith(f"{rows:,} rows, {advice.sampled_rows:,} sampled; ~ is an estimate.")
    for commit in Path(path, "_delta_log").glob("*.json"):
        lines = [json.loads(line) for line in commit.read_text().splitlines()]
        for line in lines:
            line.get("add", {}).pop("stats", None)
        commit.write_text("\n".join(map(json.dumps, lines)))
    advice = tailbit.open(path).advise()
    assert (advice.rows_exact, advice.whole) == (False, False)
    assert (
        CliRunner()
        .invoke(cli, ["advise", path])
        .stdout.splitlines()[2]
        .startswith(f"about {advice.rows:,} rows")
    )


def test_numbers_of_values_are_exact_where_every_row_is_sampled(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for n in range(3):
        write_deltalake(path, pa.table({"v": [f"{n} {i % 5}" for i in range(100)]}), mode="append")
    advice = tailbit.open(path).advise()
    assert (advice.rows, advice.rows_exact, advice.whole, of(advice, "v").estimate.distinct) == (
        300,
        True,
        True,
        15,
    )
    said = CliRunner().invoke(cli, ["advise", path]).stdout.splitlines()
    assert said[1].split("\t")[2] == "15"
    assert said[2].startswith("300 rows, all sampled")


MILLION = 1_000_000

SEEN = Measure(
    rows=MILLION // 2,
    blocks=8,
    distinct=1000,
    nulls=0,
    once=0,
    twice=0,
    positions_bytes=500_000,
    keys_bytes=5000,
    sparse=0.0,
    cut=0.0,
    stored_bytes=400_000.0,
    decode_s=0.1,
    build_s=0.2,
)


def test_what_every_block_has_is_all_there_is() -> None:
    assert distinct_keys(SEEN, 60 * MILLION) == 1000


def test_where_each_block_has_keys_of_its_own_the_unseen_ones_have_too() -> None:
    """As in a sorted column: 1,000 keys in 8 of 960 blocks."""
    assert distinct_keys(replace(SEEN, once=1000), 60 * MILLION) == 1000 + 1000 * (960 - 8) // 8


@pytest.mark.parametrize("distinct", [50, 5000, 100_000, 3_000_000])
def test_of_values_at_random_about_as_many_are_told_as_there_are(distinct: int) -> None:
    rng, rows, blocks = np.random.default_rng(distinct), 20 * MILLION, 8
    seen = [np.unique(rng.integers(0, distinct, 1 << 16)) for _ in range(blocks)]
    present = np.unique(np.concatenate(seen), return_counts=True)[1]
    once, twice = (int((present == n).sum()) for n in (1, 2))
    found = replace(SEEN, rows=blocks << 16, distinct=len(present), once=once, twice=twice)
    assert 0.8 <= distinct_keys(found, rows) / distinct <= 1.25


def test_there_are_never_more_keys_than_rows() -> None:
    every = replace(SEEN, distinct=MILLION // 2, once=MILLION // 2)
    assert distinct_keys(every, 3 * MILLION) == 3 * MILLION


def test_of_a_table_that_is_sampled_as_a_whole_nothing_is_guessed() -> None:
    found = estimate(replace(SEEN, once=900), SEEN.rows)
    assert (found.distinct, found.bytes, found.stored_bytes) == (1000, 505_000, 400_000)
    assert found.build_s == pytest.approx(0.3)


def test_no_rows_take_nothing() -> None:
    assert estimate(replace(SEEN, rows=0), 0).bytes == 0
