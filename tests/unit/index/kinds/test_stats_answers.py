"""Questions about columns without a bitmap, by column statistics: right answers, and few files read."""

from __future__ import annotations

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tailbit
from support.column_stats import definition
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from tailbit.index.maintenance.alter import alter
from tailbit.index.store.table import MetadataTable

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("k", pa.int64()),
        ("s", pa.string()),
        ("d", pa.decimal128(9, 2)),
        ("f", pa.float64()),
        ("n", pa.struct([("a", pa.int32())])),
    ]
)


def rows(rng: random.Random, number: int, count: int = 30) -> pa.Table:
    """Rows whose values rise with the number of their file, some of them NULL."""

    def some(value: object) -> object:
        return None if rng.random() < 0.1 else value

    numbers = [number * 10 + rng.randrange(20) for _ in range(count)]
    columns = {
        "id": [number * 1000 + n for n in range(count)],
        "k": [some(n) for n in numbers],
        "s": [some(rng.choice(["", "x" * 70, "é"]) + f"{n:04}") for n in numbers],
        "d": [some(Decimal(n).scaleb(-2)) for n in numbers],
        "f": [some(rng.choice([float(n), float("nan"), -0.0])) for n in numbers],
        "n": [some({"a": some(n)}) for n in numbers],
    }
    return pa.table(columns, schema=SCHEMA)


class Asked:
    """A table of files whose values rise, indexed by `id` alone, with statistics of all columns."""

    def __init__(self, folder: Path, files: int = 8, vectors: bool = False) -> None:
        features = ["deletionVectors"] if vectors else []
        self.builder = DeltaBuilder(str(folder / "t")).create(SCHEMA, features=features)
        self.rng, self.hidden = random.Random(7), dict[str, list[int]]()
        self.path, self.index = self.builder.path, str(folder / "t" / "_tailbit")
        for number in range(files):
            self.append(number)
        Drive(self.path, self.index, ["id"]).drain()
        alter(MetadataTable.open(self.index), [definition()], [])
        Drive(self.path, self.index).drain()

    def append(self, number: int) -> None:
        table = rows(self.rng, number)
        options = {"row_group_size": 7, "store_decimal_as_integer": True}
        add = self.builder.data_file(table, f"f{number}.parquet", stats=None, **options)
        self.builder.commit([add])

    def hide(self, path: str, positions: list[int]) -> None:
        vector = self.builder.inline_vector(positions)
        self.builder.commit(self.builder.hide(path, vector))
        self.hidden[path] = positions

    def live_rows(self) -> pa.Table:
        """The rows of the live files, hidden rows apart."""
        parts = []
        for path in self.builder.live:
            table = pq.read_table(Path(self.path, path))
            shown = [n for n in range(len(table)) if n not in self.hidden.get(path, ())]
            parts.append(table.take(pa.array(shown, pa.int64())))
        return pa.concat_tables(parts)

    def shown(self) -> list[dict[str, Any]]:
        """The same rows as Python values."""
        return list(self.live_rows().to_pylist())

    def expected(self, condition: str) -> int:
        """What DuckDB counts in the rows that are not hidden, read without bounds, which do not know NaN."""
        every = self.live_rows()
        # All rows are fetched: an open result keeps DuckDB's default connection from other tests.
        ((found,),) = duckdb.execute(f"SELECT count(*) FROM every WHERE {condition}").fetchall()
        assert len(every) >= found
        return int(found)


CONDITIONS = [
    "k = 35",
    "k > 72",
    "k <= 3",
    "k BETWEEN 20 AND 24",
    "k IS NULL",
    "k IS NOT NULL AND k < 12",
    "k IN (1, 2, 88)",
    "k NOT IN (1, 2, 88)",
    "NOT (k > 5)",
    "s = '0012'",
    "s > 'x'",
    "s LIKE 'é00%'",
    "d < 0.10",
    "d >= 0.40 AND d < 0.45",
    "f > 75",
    "f IS NULL",
    "n.a = 44",
    "n.a IS NULL",
    "k < 15 AND d > 0.70",
    "k < 15 OR d > 0.70",
    "k = 35 AND id >= 3000",
    "id = 2003 OR k = 70",
    "k < 10000",
    "k > 10000",
]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


@pytest.mark.parametrize(
    ("condition", "files"),
    [("k = 35", 2), ("k > 10000", 0), ("s > 'éé'", 0), ("n.a = 3", 1), ("k < 15 AND d > 0.70", 0)],
)
def test_files_without_a_row_group_that_may_match_are_not_read(
    asked: Asked, condition: str, files: int
) -> None:
    assert tailbit.open(asked.path).where(condition).files_scanned <= files


def test_row_groups_that_match_as_a_whole_are_counted_without_data(tmp_path: Path) -> None:
    asked = Asked(tmp_path)
    whole = tailbit.open(asked.path).where("id >= 0 AND (k < 10000 OR k IS NULL)")
    assert whole.files_scanned == 0
    assert whole.count() == 8 * 30


def test_hidden_rows_are_no_part_of_row_groups_that_match_as_a_whole(tmp_path: Path) -> None:
    asked = Asked(tmp_path, vectors=True)
    asked.hide("f2.parquet", [0, 1, 8])
    asked.hide("f3.parquet", list(range(30)))
    for state in ("behind", "covered"):
        for condition in [*CONDITIONS, "k < 10000 OR k IS NULL"]:
            found = tailbit.open(asked.path).where(condition).count()
            assert found == asked.expected(condition), (state, condition)
        Drive(asked.path, asked.index).drain()


@pytest.mark.parametrize("column", ["k", "d", "n.a", "s", "f"])
def test_extremes_and_nulls_are_those_of_the_data_with_and_without_hidden_rows(
    tmp_path: Path, column: str
) -> None:
    asked = Asked(tmp_path, vectors=True)
    for hidden in ({}, {"f0.parquet": list(range(20)), "f7.parquet": [0, 5, 9], "f3.parquet": [4]}):
        for path, positions in hidden.items():
            asked.hide(path, positions)
        for _ in ("behind", "covered"):
            values = [value for row in asked.shown() if (value := inner(row, column)) is not None]
            answer = tailbit.open(asked.path).where()
            ends = sorted(values, key=lambda value: (value != value, value))
            found = (answer.min(column), answer.max(column))
            assert repr(found) == repr((ends[0] + zero(ends[0]), ends[-1]))
            for test, rows_ in (("IS NULL", len(asked.shown()) - len(values)), ("IS NOT NULL", len(values))):
                assert tailbit.open(asked.path).where(f"{column} {test}").count() == rows_
            Drive(asked.path, asked.index).drain()


def inner(row: dict[str, Any], column: str) -> Any:
    """The value of a column or of a field of a struct."""
    value: Any = row
    for name in column.split("."):
        value = None if value is None else value[name]
    return value


def zero(value: Any) -> Any:
    """What to add to -0.0, which is 0.0 to Spark."""
    return 0.0 if isinstance(value, float) else type(value)()


def test_extremes_of_a_table_without_hidden_rows_are_known_without_its_files(asked: Asked) -> None:
    expected = [row["k"] for row in asked.shown() if row["k"] is not None]
    nulls = sum(row["f"] is None for row in asked.shown())
    for file in Path(asked.path).glob("*.parquet"):
        file.unlink()
    answer = tailbit.open(asked.path).where()
    assert (answer.min("k"), answer.max("k")) == (min(expected), max(expected))
    assert answer.min("d") == Decimal(min(expected)).scaleb(-2)
    assert tailbit.open(asked.path).where("f IS NULL").count() == nulls


def test_nulls_are_counted_once_where_a_file_has_no_rows(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA)
    for number, count in enumerate((30, 0, 0, 30, 0)):
        table = rows(random.Random(number), number, count)
        builder.commit([builder.data_file(table, f"f{number}.parquet", stats=None)])
    table = tailbit.open(builder.path)
    table.create_index("stats", "*", kind="column_stats")
    read = pa.concat_tables(pq.read_table(Path(builder.path, path)) for path in builder.live)
    for column in ("k", "s", "d", "f", "n.a"):
        parts = column.split(".")
        values = read.flatten()["n.a"] if parts[1:] else read[column]
        assert table.where(f"{column} IS NULL").count() == values.null_count
        assert table.where(f"{column} IS NOT NULL").count() == len(read) - values.null_count


def test_an_index_of_column_statistics_alone_is_verified_and_repaired(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA)
    builder.commit([builder.data_file(rows(random.Random(1), 1), "f.parquet")])
    table = tailbit.open(builder.path)
    table.create_index("stats", "*", kind="column_stats")
    assert table.verify().problems == []
    assert table.repair().problems == ()


def test_an_index_of_all_columns_is_made_by_a_star_and_names_what_served(asked: Asked) -> None:
    opened = tailbit.open(asked.path)
    assert opened.drop_index("stats")
    made = opened.create_index("every", "*", kind="column_stats")
    assert (made.kind, made.terms, made.state) == ("column_stats", ("*",), "complete")
    assert tailbit.open(asked.path).where("k > 10000").files_scanned == 0


def test_statistics_of_nulls_alone_are_verified_beside_those_of_values(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA)
    nulls = pa.table([pa.nulls(3, field.type) for field in SCHEMA], schema=SCHEMA)
    for number, table in enumerate((nulls, rows(random.Random(1), 1), nulls)):
        builder.commit([builder.data_file(table, f"f{number}.parquet", stats=None)])
    table = tailbit.open(builder.path)
    table.create_index("stats", "*", kind="column_stats")
    assert table.verify().problems == []


def test_a_file_that_came_while_the_table_had_none_of_the_columns_has_no_statistics(tmp_path: Path) -> None:
    both, one = pa.schema([("k", pa.int64()), ("c", pa.int64())]), pa.schema([("k", pa.int64())])
    builder = DeltaBuilder(str(tmp_path / "t")).create(both)
    builder.commit([builder.data_file(pa.table({"k": [1], "c": [5]}), "old.parquet", stats=None)])
    table, index = tailbit.open(builder.path), f"{builder.path}/_tailbit"
    table.create_index("stats", "c", kind="column_stats")
    without = {"metaData": builder.metadata_action(one)}
    new = builder.data_file(pa.table({"k": [2]}), "new.parquet", stats=None)
    builder.commit([without, builder.remove("old.parquet"), new])
    Drive(builder.path, index).drain()
    assert table.verify().problems == []
    builder.commit([{"metaData": builder.metadata_action(both)}])
    Drive(builder.path, index).drain()
    assert table.verify().problems == []
    assert (table.where("c IS NULL").count(), table.where("c > 4").count()) == (1, 0)


def test_nulls_of_a_column_without_statistics_are_counted_in_data(tmp_path: Path) -> None:
    table = pa.table({"tags": [["a"], None, []], "k": [1, None, 3]})
    builder = DeltaBuilder(str(tmp_path / "t")).create(table.schema)
    builder.commit([builder.data_file(table, "f.parquet", stats=None)])
    opened = tailbit.open(builder.path)
    opened.create_index("stats", "*", kind="column_stats")
    assert (opened.where("tags IS NULL").count(), opened.where("tags IS NOT NULL").count()) == (1, 2)


@pytest.mark.parametrize(("narrow", "wide"), [((18, 2), (22, 6)), ((18, 0), (38, 20))])
def test_a_decimal_whose_units_no_longer_fit_into_64_bits_has_no_bounds(
    tmp_path: Path, narrow: tuple[int, int], wide: tuple[int, int]
) -> None:
    builder = DeltaBuilder(str(tmp_path / "t"))
    builder.create(pa.schema([("d", pa.decimal128(*wide))]), features=["typeWidening"])
    for texts in (["1234567890123456", "3"], ["5", "7"]):
        values = pa.array(map(Decimal, texts), pa.decimal128(*narrow))
        file = builder.data_file(pa.table({"d": values}), stats=False, store_decimal_as_integer=True)
        builder.commit([file])
    index = str(tmp_path / "t" / "_tailbit")
    Drive(builder.path, index, ["d"]).drain()
    tailbit.open(builder.path).create_index("stats", "d", kind="column_stats")
    opened = tailbit.open(builder.path)
    assert [opened.where(f"d {sign} 5").count() for sign in ("=", ">", "<", ">=")] == [1, 2, 1, 3]
    assert opened.verify().sound


def test_a_long_binary_value_without_a_value_behind_its_prefix_has_no_bounds(tmp_path: Path) -> None:
    builder = DeltaBuilder(str(tmp_path / "t")).create(pa.schema([("r", pa.binary())]))
    for values in ([b"\xff" * 100, b"a"], [b"b" + b"\xff" * 99, b"c" * 70]):
        builder.commit([builder.data_file(pa.table({"r": values}))])
    Drive(builder.path, str(tmp_path / "t" / "_tailbit"), ["r"]).drain()
    opened = tailbit.open(builder.path)
    opened.create_index("stats", "coalesce(r, r)", kind="column_stats")
    hexed = ("ff" * 100, "61", "62" + "ff" * 99, "63" * 70)
    assert [opened.where(f"coalesce(r, r) = X'{text}'").count() for text in hexed] == [1, 1, 1, 1]
    assert opened.where(f"coalesce(r, r) > X'{'63' * 70}'").count() == 1
