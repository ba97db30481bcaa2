"""Which files may hold a matching row: none that holds one is missing, whatever the index covers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.scans import candidates
from support.tables import VECTORS, break_bitmaps, half_built, index_of

PREDICATES = {
    None: "abc",
    "v = 'v1'": "b",
    "v = 'v1' OR k < 10": "ab",
    "v <> 'v1' AND k >= 10": "c",
    "k > 5 OR v IS NULL": "abc",
    "v = 'nowhere'": "",
    "part = 'x'": "ac",
    "part = 'x' AND v = 'v1'": "",
}
"""Predicate to the files that an index of every file must leave."""


def table(path: str) -> None:
    """Files a, b and c of ten rows, k counting on; v is one value a file; of b's rows one is hidden."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string()), ("part", pa.string())])
    builder = DeltaBuilder(path).create(schema, ["part"], **VECTORS)
    for n, name in enumerate("abc"):
        rows = pa.table({"k": pa.array(range(10 * n, 10 * n + 10), pa.int64()), "v": [f"v{n}"] * 10})
        builder.commit([builder.data_file(rows, name, {"part": "y" if name == "b" else "x"})])
    builder.commit(builder.hide("b", builder.stored_vectors([0])[0]))


@pytest.mark.parametrize("predicate", PREDICATES)
def test_the_index_leaves_the_files_that_hold_a_match(tmp_path: Path, predicate: str | None) -> None:
    table(str(tmp_path))
    index_of(tmp_path, ["k", "v"])
    found = candidates(tailbit.open(tmp_path).where(predicate)._selection)
    assert "".join(slice_.path for slice_ in found) == PREDICATES[predicate]


def nothing(path: Path) -> None:
    """No index at all."""


def broken(path: Path) -> None:
    """An index whose bitmaps do not decode."""
    index_of(path, ["v"])
    break_bitmaps(path)


@pytest.mark.parametrize(
    "indexed",
    [nothing, broken, lambda path: half_built(path, ["v"]), lambda path: index_of(path, ["v"])],
    ids=["none", "broken", "half built", "one column"],
)
def test_no_file_with_a_match_is_missing_whatever_is_indexed(
    tmp_path: Path, indexed: Callable[[Path], object]
) -> None:
    table(str(tmp_path))
    indexed(tmp_path)
    for predicate in PREDICATES:
        answer = tailbit.open(tmp_path).where(predicate)
        assert {*answer.files()} <= {slice_.path for slice_ in candidates(answer._selection)}, predicate
