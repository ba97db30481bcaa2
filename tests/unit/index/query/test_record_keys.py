"""Record keys: postings in small pages, of which a look-up decodes only those that its keys fall into."""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from itertools import combinations_with_replacement
from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.drive import Drive
from support.key_places import joined, located
from support.tables import flipped_pages, index_files
from tailbit.errors import IndexNameTakenError, StatementError
from tailbit.index.keys import encode_array
from tailbit.index.kinds import bitmap_index
from tailbit.index.kinds.settings import PACKED_FORMAT, PAGED_FORMAT
from tailbit.index.maintenance import definitions
from tailbit.index.postings import paged_lookup, postings, segment
from tailbit.index.postings.layout import NUMBER, PAGE_ROWS
from tailbit.index.postings.layout import UUID as UUIDS
from tailbit.index.query import key_join, locate
from tailbit.index.query.key_join import KeyJoin
from tailbit.index.query.lookup import by_hash

ROWS, FILES = 12_000, 3
"""Rows of the table: a row space has some 24 pages of a key."""

GROUP_ROWS = 2 * PAGE_ROWS
"""Keys in a row group of these tests, so that a row space has several."""

KEYS = ("id", "name", "at", "price", "twice", "part, name", "id, part", "day", "uuid", "mixed")


@pytest.fixture(autouse=True, scope="module")
def small_row_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "PAGED_GROUP_ROWS", GROUP_ROWS)
        yield


def uuid_of(number: int) -> str:
    """A UUID; two thousand of them share their first half."""
    return str(
        UUID(int=(number % 6 * 0x9E3779B97F4A7C15 % 2**64) << 64 | number * 0xD1B54A32D192ED03 % 2**64)
    )


def mixed_of(number: int) -> str:
    """A UUID; or one in other writing, or something else, before and behind and among the others."""
    text = uuid_of(number)
    others = {0: text.upper(), 1: f"{{{text}}}", 2: text.replace("-", "_"), 3: f"z{text[1:]}", 4: text[:-1]}
    return others.get(number % 400, text)


def rows_of(first: int, count: int) -> pa.Table:
    """Rows of which `id` is NULL here and there, `twice` has two rows a key, and the others are unique."""
    numbers = np.random.default_rng(first).permutation(count) + first
    return pa.table(
        {
            "id": pa.array((numbers - ROWS // 2) * 7, mask=numbers % 1000 == 3),
            "name": [f"{number * 2654435761 % 2**32:08x}-{number}" for number in numbers.tolist()],
            "at": pa.array(numbers * 1_000_000, pa.timestamp("us")),
            "part": numbers % 3,
            "price": numbers * -1.5 + 100,
            "twice": numbers // 2,
            "uuid": pa.array(map(uuid_of, numbers.tolist()), mask=numbers % 1000 == 5),
            "mixed": list(map(mixed_of, numbers.tolist())),
            "day": pa.array(numbers.astype(np.int32), pa.date32()),
        }
    )


def written(path: str, keys: tuple[str, ...] = KEYS) -> None:
    """A table and its index; each file is a row space of its own."""
    for first in range(0, ROWS, ROWS // FILES):
        write_deltalake(path, rows_of(first, ROWS // FILES), mode="append")
    for number, columns in enumerate(keys):
        tailbit.sql(f"CREATE INDEX key_{number} ON '{path}' USING record_key ({columns})")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = str(tmp_path_factory.mktemp("keys") / "t")
    written(path)
    write_deltalake(path, rows_of(ROWS, 100), mode="append")
    Drive(path, f"{path}/_tailbit").drain()
    return path


def keys_of(table: str, columns: list[str], count: int, seed: int) -> pa.Table:
    """Distinct keys of rows, and some that no row has."""
    rng, rows = np.random.default_rng(seed), pq.read_table(DeltaTable(table).file_uris())
    there = rows.select(columns).take(pa.array(rng.choice(len(rows), count, replace=False)))
    keys = pa.concat_tables([there, rows_of(10 * ROWS + 4, 20).select(columns).cast(there.schema)])
    return keys.filter(pa.compute.is_valid(keys[columns[0]])).group_by(columns).aggregate([])


@pytest.mark.parametrize("count", [1, 3, 900])
@pytest.mark.parametrize("columns", KEYS)
def test_keys_are_located_where_a_join_finds_them(table: str, columns: str, count: int) -> None:
    keys = keys_of(table, columns.split(", "), count, count)
    assert located(table, keys) == joined(table, keys)


def test_one_key_decodes_a_page_of_each_row_space(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, whole = [], paged_lookup.decoded
    segment.POSTINGS.clear()
    monkeypatch.setattr(paged_lookup, "decoded", lambda parts: (rows.append(len(of := whole(parts))), of)[1])
    assert tailbit.open(table).locate([7], on="id")["position"].null_count == 0
    assert rows
    assert max(rows) <= PAGE_ROWS


@pytest.mark.parametrize(
    "condition",
    [
        "id = 70",
        "id IN (7, 14, 70, 71)",
        "id IS NULL",
        "id BETWEEN -100 AND 1000",
        "id <> 7",
        "price < 0",
        "twice = 5",
        "name LIKE 'f%'",
        "part = 1 AND name > 'f'",
        "day >= DATE'1990-02-01'",
        "uuid < '4'",
        "uuid IS NULL",
        f"uuid = '{uuid_of(7)}'",
        f"mixed IN ('{mixed_of(400)}', '{mixed_of(402)}', '{uuid_of(9)}')",
    ],
)
def test_conditions_on_record_keys_read_no_data(table: str, condition: str) -> None:
    answer = tailbit.open(table).where(condition)
    files = f"read_parquet({DeltaTable(table).file_uris()})"
    expected = duckdb.sql(f"SELECT count(*) FROM {files} WHERE {condition}").fetchall()[0][0]
    assert (answer.count(), answer.files_scanned) == (expected, 0)


@pytest.mark.parametrize("hash_of", [definitions.HASH_OF, "pmod(hash({once}), 97) + pmod(hash({twice}), 2)"])
@pytest.mark.parametrize("columns", ["long", "name, part", "id", "at"])
def test_hashed_keys_are_located_where_a_join_finds_them_at_any_lag(
    tmp_path: Path, columns: str, hash_of: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "HASH_OF", hash_of)
    served = []
    monkeypatch.setattr(locate, "by_hash", lambda *of: (served.append(found := by_hash(*of)), found)[1])
    path, names = str(tmp_path / "t"), columns.split(", ")

    def rows(first: int) -> pa.Table:
        part = rows_of(first, 700)
        return part.append_column("long", pa.compute.binary_repeat(part["name"], 40))

    write_deltalake(path, rows(0))
    tailbit.sql(f"CREATE INDEX k ON '{path}' USING record_key ({columns}) OPTIONS (keys = 'hash')")
    there = rows(0).select(names).slice(50, 60)
    keys = pa.concat_tables([there, rows(900_000).select(names).slice(0, 20)]).drop_null()
    assert located(path, keys) == joined(path, keys)
    assert [place for place in served if place is not None]
    answer = tailbit.open(path).locate(keys, names)
    assert answer["path"].null_count == 20
    write_deltalake(path, rows(350), mode="append")
    assert located(path, keys) == joined(path, keys)
    Drive(path, f"{path}/_tailbit").drain()
    DeltaTable(path).delete("part = 1")
    assert located(path, keys) == joined(path, keys)
    value = keys[names[0]][3].as_py()
    if len(names) == 1 and columns != "at":
        literal = value if columns == "id" else f"'{value}'"
        asked = tailbit.open(path).where(f"{columns} = {literal}")
        assert asked.count() == sum(row[1] != "None" for row in located(path, keys.slice(3, 1)))


def test_duplicated_keys_are_told_without_reading_data(table: str) -> None:
    every = tailbit.open(table).where()
    assert every.top("twice", 1) == {0: 2}
    assert every.top("id", 1) == {None: 13}
    assert every.count_distinct("twice") == (ROWS + 100) // 2
    assert every.count_distinct("part", "name") == ROWS + 100


def test_the_records_of_rfc_92_hold_every_row_of_a_key_once(table: str) -> None:
    records = pa.Table.from_batches(list(tailbit.open(table).bitmap_records(["id", "twice"])))
    for column, many in (("id", 1), ("twice", 2)):
        own = records.filter(pa.compute.equal(records["column"], column))
        assert pa.compute.sum(own["rows"]).as_py() == ROWS + 100
        valued = own.filter(pa.compute.invert(own["value_is_null"])).group_by("value")
        assert set(valued.aggregate([("rows", "sum")])["rows_sum"].to_pylist()) == {many}


def test_merged_and_verified_keys_are_located_as_before(tmp_path: Path) -> None:
    path, merged = str(tmp_path / "t"), ("id", "part, name", "uuid", "mixed")
    written(path, merged)
    for first in range(2 * ROWS, 2 * ROWS + 40 * 10, 10):
        write_deltalake(path, rows_of(first, 10), mode="append")
        Drive(path, f"{path}/_tailbit").drain()
    tailbit.open(path).compact()
    assert len(index_files(path, "bitmap_index")) < 40
    paged = [NUMBER in pq.read_schema(file).names for file in index_files(path, "bitmap_index")]
    assert all(paged), "a segment of record keys alone is paged, merged or not"
    for columns in merged:
        keys = keys_of(path, columns.split(", "), 200, 1)
        assert located(path, keys) == joined(path, keys)
    assert tailbit.open(path).verify().problems == []


def forms_of(path: str) -> set[bool]:
    """Whether row groups of postings hold UUIDs as sixteen bytes."""
    every = [pq.read_table(file) for file in index_files(path, "bitmap_index")]
    return {UUIDS in rows.column_names and rows[UUIDS].null_count < len(rows) for rows in every}


def test_an_older_index_keeps_uuids_as_texts_until_it_has_the_newer_format(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "t")
    with monkeypatch.context() as older:
        older.setattr(bitmap_index, "is_textual", lambda _: False)
        written(path, ("uuid",))
    index = tailbit.open(path)._needed()
    assert (index.state.settings.format, forms_of(path)) == (PAGED_FORMAT, {False})
    keys = keys_of(path, ["uuid"], 200, 4)
    assert located(path, keys) == joined(path, keys)
    tailbit.sql(f"CREATE INDEX other ON '{path}' USING record_key (mixed)")
    assert tailbit.open(path)._needed().state.settings.format == PACKED_FORMAT
    assert forms_of(path) == {False, True}
    assert located(path, keys) == joined(path, keys)


def test_damaged_pages_are_set_aside_and_the_data_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    written(path, ("id", "name", "uuid"))
    keys = {name: keys_of(path, [name], 50, 2) for name in ("id", "name", "uuid")}
    expected = {name: joined(path, keys[name]) for name in keys}
    for file in index_files(path, "bitmap_index"):
        flipped_pages(file)
    assert {name: located(path, keys[name]) for name in keys} == expected


def test_a_key_is_dropped_and_rebuilt_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    written(path, ("id",))
    (made,) = tailbit.sql(f"ALTER INDEX key_0 ON '{path}' REBUILD")
    assert (made["kind"], made["state"]) == ("record_key", "complete")
    keys = keys_of(path, ["id"], 50, 3)
    assert located(path, keys) == joined(path, keys)
    assert tailbit.open(path)._needed().state.settings.format == PAGED_FORMAT
    tailbit.sql(f"DROP INDEX key_0 ON '{path}'")
    assert located(path, keys) == joined(path, keys)


@pytest.mark.parametrize(
    ("terms", "error", "said"),
    [
        ("lower(name)", StatementError, "a record key is of columns"),
        ("listed", StatementError, "is an array"),
        ("id", IndexNameTakenError, "is an index of id already"),
        ("id, name, at, part, price", StatementError, "4 terms at most"),
        ("price) OPTIONS (keys = 'hash'", StatementError, "of which no hashes are kept"),
        ("id) OPTIONS (keys = 'hashed'", StatementError, "keys is not 'hashed'"),
    ],
)
def test_what_is_no_record_key_is_refused(
    tmp_path: Path, terms: str, error: type[Exception], said: str
) -> None:
    path = str(tmp_path / "t")
    rows = rows_of(0, 4)
    write_deltalake(path, rows.append_column("listed", pa.array([[1]] * 4)))
    tailbit.sql(f"CREATE INDEX other ON '{path}' (id)")
    with pytest.raises(error, match=said):
        tailbit.sql(f"CREATE INDEX key ON '{path}' USING record_key ({terms})")
    assert [index.name for index in tailbit.open(path).indexes()] == ["other"]


LEAST, MOST = -(1 << 63), (1 << 63) - 1
VALUES = {
    "integer": (pa.int64(), [LEAST, LEAST + 1, -1, 0, 1, 7, 8, MOST - 1, MOST]),
    "double": (pa.float64(), [float("nan"), -0.0, 0.0, 1.5, -1.5, float("inf"), float("-inf"), 5e-324]),
    "decimal(2)": (
        pa.decimal128(38, 2),
        [Decimal(n) for n in ("-1e35", "-0.01", "0", "0.01", "5", "1e30", "92233720368547758.07")],
    ),
    "string": (pa.string(), ["", "a", "a\0", "ä", "b" * 300, "b" * 301, "c"]),
    "boolean": (pa.bool_(), [True, False]),
    "date": (pa.date32(), [-700_000, 0, 1, 20_000]),
    "timestamp": (pa.timestamp("us", "UTC"), [LEAST, -1, 0, 1_000_000, MOST]),
}
"""By key type values at the edges, of which none equals another but for the two zeros."""


@pytest.mark.parametrize("hashes", [0, 7, 1 << 62], ids=["by Arrow", "by seven hashes", "by hash"])
@pytest.mark.parametrize(
    "types", [*((type_,) for type_ in VALUES), *combinations_with_replacement(VALUES, 2), ("integer",) * 3]
)
def test_a_row_has_the_key_whose_code_it_has(
    types: tuple[str, ...], hashes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_join, "MANY", 0 if hashes else 1 << 16)
    if hashes:
        # Few hashes: of some keys two have one, and rows that are no key have that of one.
        monkeypatch.setattr(key_join, "_hashes", lambda values: (values.hash() % hashes).to_numpy())
    for seed in range(6):
        source = random.Random(seed)
        rows = [
            pa.array(source.choices([*VALUES[type_][1], None], k=200), VALUES[type_][0]) for type_ in types
        ]
        codes = list(
            zip(
                *(encode_array(array, type_).to_pylist() for array, type_ in zip(rows, types, strict=True)),
                strict=True,
            )
        )
        whole = [number for number, code in enumerate(codes) if None not in code]
        of_keys = source.sample(
            sorted({codes[number]: number for number in whole}.values()), k=min(9, len(set(codes)) // 3 + 1)
        )
        keys = KeyJoin(types, [array.take(pa.array(of_keys)) for array in rows])
        assert keys.is_distinct
        indices = {codes[number]: index for index, number in enumerate(of_keys)}
        expected = [indices.get(code, -1) for code in codes]
        assert (
            keys.owners([pa.chunked_array([array.slice(0, 90), array.slice(90)]) for array in rows]).tolist()
            == expected
        )
        twice = KeyJoin(types, [array.take(pa.array(np.array([*of_keys, of_keys[0]]))) for array in rows])
        assert not twice.is_distinct
