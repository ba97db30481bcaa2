"""Conditions on generated columns prune only what no session of a writer can have stored there."""

# ruff: noqa: E501

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder, field_json
from support.scans import candidates
from support.tables import index_of

TEXTS = ["5", "05", "x", "", None, "ß", "I", "i", "2024-02-03"]
NUMBERS = [0, 1, -1, 7, 2**31 - 1, -(2**31), None]


def written(
    path: Path,
    base: pa.Array,
    expression: str,
    stored: list[str | None],
    type_: pa.DataType,
    protocol: dict[str, Any] | None = None,
    **base_metadata: Any,
) -> str:
    """Write a table of one file a row, partitioned by `g`; `stored` is what the writer made of each value."""
    fields = [
        field_json(pa.field("b", base.type), **base_metadata),
        field_json(pa.field("g", type_), **{"delta.generationExpression": expression}),
    ]
    table = DeltaBuilder(str(path / "t"), protocol=protocol or {"minReaderVersion": 1, "minWriterVersion": 4})
    table.create({"type": "struct", "fields": fields}, ["g"])
    for n in range(len(base)):
        add = table.data_file(pa.table({"b": base[n : n + 1]}), f"f{n}.parquet", partition={"g": stored[n]})
        table.commit([add])
    return table.path


def check(path: str, base: pa.Array, conditions: list[str]) -> None:
    """Check that each condition on `b` gives the rows that DuckDB finds, without an index and with one."""
    rows = duckdb.from_arrow(pa.table({"b": base}))
    expected = [len(rows.filter(condition)) for condition in conditions]
    assert [tailbit.open(path).where(c).count() for c in conditions] == expected
    index_of(path, ["b"])
    assert [tailbit.open(path).where(c).count() for c in conditions] == expected


OF_TEXTS = ["b = 'x'", "b = '5'", "b IN ('05', 'x')", "b < '6'", "b >= '5'", "b = ''", "b IS NULL", "b IS NOT NULL", "b = 'ß'", "b LIKE '0%'"]  # fmt: skip
OF_NUMBERS = [
    "b = 2147483647", "b IN (0, 2147483647)", "b > 7", "b < 0", "b = 0", "b = -2147483648", "b <= 1", "b IS NULL", "b BETWEEN -1 AND 7",
]  # fmt: skip


@pytest.mark.parametrize(
    ("expression", "type_", "stored"),
    [
        ("CAST(b AS INT)", pa.int32(), ["5", "5", None, None, None, None, None, None, "2024"]),
        ("CAST(b AS DATE)", pa.date32(), [None, None, None, None, None, None, None, None, "2024-02-03"]),
        ("b + 1", pa.int64(), ["6", "6", None, None, None, None, None, None, None]),
        ("upper(b)", pa.string(), ["5", "05", "X", None, None, "ẞ", "I", "İ", "2024-02-03"]),
        ("lower(b)", pa.string(), ["5", "05", "x", None, None, "ß", "ı", "i", "2024-02-03"]),
        ("left(b, 1)", pa.string(), ["5", "0", "x", None, None, "ß", "I", "i", "2"]),
        ("concat(b, '')", pa.string(), ["5", "05", "x", None, None, "ß", "I", "i", "2024-02-03"]),
        ('concat(b, "")', pa.string(), [None] * 9),
        ("replace(b, '\\\\0', '')", pa.string(), ["5", "05", "x", None, None, "ß", "I", "i", "2024-02-03"]),
        (
            "b LIKE '_'",
            pa.bool_(),
            ["true", "false", "true", "false", None, "false", "true", "true", "false"],
        ),
    ],
)
def test_a_text_that_a_session_could_not_cast_or_cased_otherwise_is_found(
    tmp_path: Path, expression: str, type_: pa.DataType, stored: list[str | None]
) -> None:
    base = pa.array(TEXTS, pa.string())
    check(written(tmp_path, base, expression, stored, type_), base, OF_TEXTS)


@pytest.mark.parametrize(
    ("expression", "type_", "stored"),
    [
        ("b + 1", pa.int32(), ["1", "2", "0", "8", "-2147483648", "-2147483647", None]),
        ("b * 2", pa.int32(), ["0", "2", "-2", "14", "-2", "0", None]),
        ("-b", pa.int32(), ["0", "-1", "1", "-7", "-2147483647", "-2147483648", None]),
        ("abs(b)", pa.int32(), ["0", "1", "1", "7", "2147483647", "-2147483648", None]),
        ("10 div b", pa.int64(), [None, "10", "-10", "1", "0", "0", None]),
        ("CAST(b AS TINYINT)", pa.int8(), ["0", "1", "-1", "7", "-1", "0", None]),
        ("1000 % b", pa.int32(), [None, "0", "0", "6", "1000", "1000", None]),
        ("b + 1 > 0", pa.bool_(), ["true", "true", "false", "true", "false", "false", None]),
    ],
)
def test_a_number_that_overflowed_where_ansi_mode_was_off_is_found(
    tmp_path: Path, expression: str, type_: pa.DataType, stored: list[str | None]
) -> None:
    base = pa.array(NUMBERS, pa.int32())
    check(written(tmp_path, base, expression, stored, type_), base, OF_NUMBERS)


def files(path: str, condition: str) -> int:
    """Return the number of files that a condition leaves."""
    return len(candidates(tailbit.open(path).where(condition)._selection))


def test_exact_arithmetic_prunes_single_values_of_an_expression_that_may_raise(tmp_path: Path) -> None:
    path = written(tmp_path, pa.array([1, 2, 3], pa.int32()), "b * 10", ["10", "20", "30"], pa.int32())
    assert files(path, "b = 2") == 1
    assert files(path, "b IN (1, 3)") == 2
    assert files(path, "b IN (2, 2147483647)") == 3
    assert files(path, "b > 1") == 3


def test_a_range_prunes_an_expression_that_never_raises(tmp_path: Path) -> None:
    path = written(tmp_path, pa.array([5, 15, 25], pa.int32()), "b div 10", ["0", "1", "2"], pa.int64())
    assert files(path, "b > 9") == 2
    assert files(path, "b < 10") == 1


@pytest.mark.parametrize(
    "protocol",
    [
        {"minReaderVersion": 1, "minWriterVersion": 3},
        {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly"]},
    ],
)
def test_a_generation_expression_that_no_writer_must_keep_implies_nothing(
    tmp_path: Path, protocol: dict[str, Any]
) -> None:
    base = pa.array([1, 2], pa.int32())
    path = written(tmp_path, base, "b % 4", ["3", "2"], pa.int32(), protocol)
    check(path, base, ["b = 1", "b = 2", "b IN (1, 2)"])


def test_the_table_feature_that_is_dropped_without_new_metadata_implies_nothing_any_more(
    tmp_path: Path,
) -> None:
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["generatedColumns"]}
    base = pa.array([1, 2], pa.int32())
    path = written(tmp_path, base, "b % 4", ["1", "2"], pa.int32(), protocol)
    handle = tailbit.open(path)
    assert handle.where("b = 1").count() == 1
    table = DeltaBuilder(path, version=len(base))
    table.commit([{"protocol": protocol | {"writerFeatures": ["appendOnly"]}}])
    add = table.data_file(pa.table({"b": pa.array([1], pa.int32())}), partition={"g": "9"})
    table.commit([add])
    assert handle.where("b = 1").count() == 2


def test_a_column_whose_type_was_widened_implies_nothing(tmp_path: Path) -> None:
    base = pa.array([7, 8], pa.int64())
    changes = [{"fromType": "integer", "toType": "long"}]
    path = written(tmp_path, base, "hash(b)", ["1", "2"], pa.int32(), None, **{"delta.typeChanges": changes})
    check(path, base, ["b = 7", "b IN (7, 8)"])


def test_a_value_that_is_spelled_as_hive_spells_null_is_found(tmp_path: Path) -> None:
    base = pa.array(["__HIVE_DEFAULT_PARTITION__x", "a"], pa.string())
    path = written(tmp_path, base, "left(b, 26)", [None, "a"], pa.string())
    check(path, base, ["b = '__HIVE_DEFAULT_PARTITION__x'", "b = 'a'", "b > 'A'", "b < 'a'"])


def test_an_empty_text_of_a_partition_column_may_have_made_another_value(tmp_path: Path) -> None:
    """The partition column `p` reads as NULL where the writer computed `length(p)` of an empty text."""
    fields = [
        field_json(pa.field("p", pa.string())),
        field_json(pa.field("v", pa.int32())),
        field_json(pa.field("g", pa.int32()), **{"delta.generationExpression": "length(p)"}),
    ]
    table = DeltaBuilder(str(tmp_path / "t"), protocol={"minReaderVersion": 1, "minWriterVersion": 4})
    table.create({"type": "struct", "fields": fields}, ["p"])
    rows = pa.table({"v": pa.array([1], pa.int32()), "g": pa.array([0], pa.int32())})
    statistics = {"numRecords": 1, "minValues": {"g": 0}, "maxValues": {"g": 0}, "nullCount": {"g": 0}}
    add = table.data_file(rows, partition={"p": None})
    add["add"]["stats"] = json.dumps(statistics)
    table.commit([add])
    assert tailbit.open(table.path).where("p IS NULL").count() == 1


@pytest.mark.parametrize("using", ["bitmap", "column_stats"])
@pytest.mark.parametrize(
    "expression",
    ["CAST(b AS INT)", "CAST(b AS DATE)", "year(b)", "b + 1", "10 / length(b)", "trunc(b, 'MONTH')"],
)
def test_an_index_of_an_expression_that_raises_for_some_rows_loses_none_of_them(
    tmp_path: Path, expression: str, using: str
) -> None:
    base = pa.array(TEXTS, pa.string())
    table = DeltaBuilder(str(tmp_path / "t")).create(pa.schema([("b", pa.string())]))
    for first in range(0, len(base), 3):
        table.commit([table.data_file(pa.table({"b": base[first : first + 3]}))])
    tailbit.sql(f"CREATE INDEX e ON '{table.path}' USING {using} ({expression})")
    rows = duckdb.from_arrow(pa.table({"b": base}))
    for condition in OF_TEXTS:
        assert tailbit.open(table.path).where(condition).count() == len(rows.filter(condition)), condition
