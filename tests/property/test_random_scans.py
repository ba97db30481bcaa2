"""Random conditions over files of random layouts are TRUE in the same rows, whoever seeks these."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap

import tailbit
from support.delta_builder import DeltaBuilder
from support.function_cells import rows
from support.profiles import SEED
from support.random_conditions import Conditions
from support.scans import counted, positions, scans_of
from tailbit.base.arrays import Mask
from tailbit.errors import EvaluationError, PredicateError
from tailbit.index.query import scan as scanning
from tailbit.index.query.scan import Scan
from tailbit.tables.parquet import value_search
from tailbit.tables.parquet.layout import Layout

PLAIN = (
    "l > 0",
    "d >= 0D OR f < -1.5D",
    "s LIKE '%c' AND i <> 0",
    "p IN (0, 1.5, 0.05)",
    "NOT (ts < TIMESTAMP'2000-01-01 00:00:00')",
    "n IS NULL OR bo",
    "b < sh AND q <= 2",
    "x > X'61' OR dt BETWEEN DATE'1970-01-01' AND DATE'2020-12-31'",
    "s LIKE 'a%c' OR nt = TIMESTAMP_NTZ'1970-01-01 00:00:00'",
    "l >= 9223372036854775807 OR l <= -9223372036854775808",
    "l IS NOT NULL",
    "NOT (d IS NULL) AND bo IS NOT NULL",
    "i IS NOT NULL OR i > 3",
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six files of random rows, written in random ways; columns of every other one have no NULL."""
    path = str(tmp_path_factory.mktemp("scans") / "table")
    rng, draw = np.random.default_rng(SEED), random.Random(SEED)
    cells = rows()
    builder = DeltaBuilder(path).create(cells.schema, features=["timestampNtz"])
    files = []
    for number in range(6):
        size = int(rng.integers(100, 1500))
        schema = cells.schema
        given = {name: cells[name] for name in cells.column_names}
        if number % 2:
            given = {name: cells[name].drop_null() for name in given}
            schema = pa.schema([field.with_nullable(not len(given[field.name])) for field in schema])
        at = {name: rng.integers(0, max(1, len(its)), size) for name, its in given.items()}
        columns = {
            name: its.take(pa.array(at[name])) if len(its) else pa.nulls(size, its.type)
            for name, its in given.items()
        }
        mixed = pa.table(columns, schema=schema)
        files.append(builder.data_file(mixed, f"f{number}.parquet", **layout(draw)))
    builder.commit(files)
    return path


def layout(draw: random.Random) -> dict[str, Any]:
    """One of the ways in which a writer may lay out a file."""
    return {
        "row_group_size": draw.randint(40, 800),
        "use_dictionary": draw.choice([True, True, False]),
        "dictionary_pagesize_limit": draw.choice([1 << 20, 50]),
        "write_batch_size": draw.choice([1024, 30]),
        "compression": draw.choice(["snappy", "zstd", "none", "brotli", "gzip"]),
        "data_page_size": draw.choice([1 << 20, 300]),
        "data_page_version": draw.choice(["1.0", "2.0"]),
        "store_decimal_as_integer": draw.choice([True, False]),
    }


def every(_node: object, its: Layout, *_: object) -> Mask:
    """No row group is left out."""
    return np.ones(its.metadata.num_row_groups, bool)


def found(table: tailbit.IndexedTable, scans: list[Scan], stored: bool) -> list[list[int]] | None:
    """Positions; None where one raises."""
    try:
        return positions(table, scans, stored)
    except EvaluationError:
        return None


def narrowed(scans: list[Scan], rng: np.random.Generator) -> list[Scan]:
    """Some of the scans among some rows alone, some with hidden rows."""
    out = []
    for its in scans:
        count = its.slice_.rows or 0
        some = np.flatnonzero(rng.random(count) < rng.random()).astype(np.uint64)
        hidden = BitMap(rng.integers(0, count, 20).tolist())
        among, gone = rng.random(2) < 0.3
        out.append(replace(its, among=some if among else None, hidden=hidden if gone else None))
    return out


@pytest.mark.by_thirds
@pytest.mark.parametrize("by_polars", [False, True])
def test_rows_found_by_stored_values_in_some_row_groups_are_those_found_without(
    path: str, monkeypatch: pytest.MonkeyPatch, by_polars: bool
) -> None:
    monkeypatch.setattr(value_search, "quicker_tested", lambda *_: by_polars)
    made, rng = Conditions(random.Random(SEED + 3)), np.random.default_rng(SEED)
    texts = [*PLAIN, *(made.tree(made.rng.randint(0, 2)).text for _ in range(40))]
    texts += [f"({draw}) AND ({made.tree(1).text})" for draw in PLAIN]
    told = 0
    for text in texts:
        try:
            table, scans = scans_of(path, text)
        except PredicateError:
            continue
        scans = narrowed(scans, rng)
        mine = found(table, scans, stored=True)
        with monkeypatch.context() as patched:
            patched.setattr(scanning, "can_match", every)
            assert mine == found(table, scans, stored=False), text
        if mine is not None:
            assert counted(table, scans, stored=True) == sum(map(len, mine)), text
            assert counted(table, scans) == sum(map(len, mine)), text
            told += 1
    assert told > 20
