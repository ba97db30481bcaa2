"""Conditions that are computed: once for each key of an indexed column, else on rows; errors as Spark's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from support.delta_builder import DeltaBuilder
from support.tables import eight_flights, index_of
from tailbit.answer import Answer
from tailbit.errors import EvaluationError

TEXTS = ["SFO", "LAX", None, "sfo", "x" * 300, "x" * 299 + "y", "", "SEA"]
TABLE = pa.table(
    {
        "text": TEXTS,
        "number": pa.array([0, 1, 2, 3, None, 5, 6, 7], pa.int32()),
        "other": pa.array([1, 1, 0, 2, 3, None, 5, 0], pa.int32()),
        "part": ["1", "1", "1", "1", "2", "2", "zero", None],
    }
)


@pytest.fixture
def path(table_path: str) -> str:
    """Eight rows in four partitions; text and number are indexed."""
    write_deltalake(table_path, TABLE, partition_by=["part"])
    index_of(table_path, ["text", "number"])
    return table_path


def ask(path: str, predicate: str) -> Answer:
    return tailbit.open(path).where(predicate)


def numbers(answer: Answer) -> list[int | None]:
    return sorted(answer.read(["number"])["number"].to_pylist(), key=lambda n: -1 if n is None else n)


@pytest.mark.parametrize(
    ("predicate", "matching", "scanned"),
    [
        ("upper(text) = 'SFO'", [0, 3], 1),
        ("text LIKE 'S%'", [0, 7], 0),
        ("text LIKE '%O'", [0], 1),
        ("text ILIKE 'sf%'", [0, 3], 1),
        ("length(text) = 300", [None, 5], 1),
        ("text LIKE '%y'", [5], 1),
        ("NOT (number % 2 = 0)", [1, 3, 5, 7], 0),
        ("(number % 2 = 0) IS NULL", [None], 0),
        ("(number % 2 = 0) IS NOT TRUE", [None, 1, 3, 5, 7], 0),
        ("coalesce(number, -1) < 1", [None, 0], 0),
        ("number + other = 2", [1, 2], 4),
        ("part || '!' = '1!'", [0, 1, 2, 3], 0),
        ("coalesce(part, 'none') = 'none'", [7], 0),
        ("number % 2 = 0 AND other = 5", [6], 1),
    ],
)
def test_a_computed_condition_is_true_at_its_rows(
    path: str, predicate: str, matching: list[int | None], scanned: int
) -> None:
    answer = ask(path, predicate)
    assert numbers(answer) == matching
    assert answer.count() == len(matching)
    assert answer.files_scanned <= scanned
    assert ask(path, predicate).count() == len(matching)


@pytest.mark.parametrize(
    "predicate", ["10 / number > 1", "NOT (10 / number > 1)", "(10 / number > 1) IS NULL"]
)
def test_a_visible_value_that_raises_is_named_with_its_place_and_class(path: str, predicate: str) -> None:
    with pytest.raises(EvaluationError, match=r"DIVIDE_BY_ZERO where number = 0, at row 0 of part=1/"):
        ask(path, predicate).count()


def test_a_value_that_raises_counts_only_where_no_other_condition_decides(path: str) -> None:
    assert ask(path, "number <> 0 AND 10 / number > 2").count() == 3
    assert ask(path, "10 / number > 2 AND number <> 0").count() == 3
    assert ask(path, "10 / number > 2 OR number = 0").count() == 4
    assert ask(path, "10 / other > 2 AND other IN (1, 2)").count() == 3


def test_a_key_that_occurs_only_in_hidden_rows_raises_nothing(table_path: str) -> None:
    builder = eight_flights(table_path)
    asked = "CAST(carrier AS INT) = 1 OR carrier = 'UA'"
    with pytest.raises(EvaluationError, match="CAST_INVALID_INPUT"):
        ask(table_path, asked).count()
    for file, others in (("a.parquet", [1, 3]), ("b.parquet", [1, 2])):
        builder.commit(builder.hide(file, builder.inline_vector(others)))
    assert ask(table_path, asked).count() == 4


def test_a_partition_value_that_raises_is_named_only_where_it_counts(path: str) -> None:
    with pytest.raises(EvaluationError, match="CAST_INVALID_INPUT where part = zero, at row 0 of part=zero/"):
        ask(path, "CAST(part AS INT) = 1").count()
    assert ask(path, "CAST(part AS INT) = 1 AND number < 6").count() == 4
    assert ask(path, "TRY_CAST(part AS INT) = 1").count() == 4


def test_an_answer_is_the_same_whether_or_not_an_index_serves_it(path: str, tmp_path: object) -> None:
    plain = f"{tmp_path}/plain"
    write_deltalake(plain, TABLE, partition_by=["part"])
    for predicate in (
        "lower(text) = 'sfo'",
        "number * 2 > 5",
        "substr(text, 1, 1) = 'x'",
        "number - other = 0",
    ):
        assert numbers(ask(plain, predicate)) == numbers(ask(path, predicate)), predicate


def test_explain_names_a_computed_condition(path: str) -> None:
    account = ask(path, "upper(text) = 'SEA'").explain()
    assert account["predicate"] == "upper(text) = 'SEA'"
    assert {file["outcome"] for file in account["files"] if file["matching"]} == {"kept"}


def test_an_error_shows_the_beginning_of_a_long_value(path: str) -> None:
    with pytest.raises(EvaluationError) as raised:
        ask(path, "CAST(text AS INT) = 1 AND number = 5").count()
    assert str(raised.value).count("x") < 100
    assert "x..., at row" in str(raised.value)


def test_a_partition_value_without_a_zone_is_in_the_zone_of_its_writer(table_path: str) -> None:
    moments = pa.array([0, 3600 * 10**6 * 23], pa.timestamp("us", "UTC"))
    write_deltalake(table_path, pa.table({"at": moments, "number": [1, 2]}), partition_by=["at"])
    index_of(table_path, ["number"])
    opened = tailbit.open(table_path)
    asked = "date_format(at, 'dd') = '01'"
    zoned = [opened.where(asked, partition_zone=zone).count() for zone in ("UTC", "-05:00", "UTC")]
    plain = [
        opened.where("at < TIMESTAMP'1970-01-02'", partition_zone=z).count() for z in ("UTC", "-05:00", "UTC")
    ]
    assert zoned == plain == [2, 1, 2]


@pytest.mark.parametrize("predicate", ["day < time", "time >= day", "day <=> time", "day < moment"])
def test_a_date_that_no_time_can_be_is_shown_where_it_is_compared_with_one(
    table_path: str, predicate: str
) -> None:
    times = pa.array([0, 5], pa.int64())
    rows = {
        "day": pa.array([-1, 106751992], pa.int32()).cast(pa.date32()),
        "time": times.cast(pa.timestamp("us")),
        "moment": times.cast(pa.timestamp("us", "UTC")),
    }
    builder = DeltaBuilder(table_path).create(pa.table(rows).schema)
    builder.commit([builder.data_file(pa.table(rows), "f.parquet")])
    with pytest.raises(EvaluationError, match=r"where .*day = 294247-01-11.*, at row 1 of f"):
        ask(table_path, predicate).count()
    assert ask(table_path, f"({predicate}) IS NOT NULL AND day < DATE'1970-01-01'").count() == 1
