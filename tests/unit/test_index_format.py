"""The reader in docs/index-format.md reads what this release writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap

from support.built import Built
from support.delta_builder import DeltaBuilder
from tailbit.index.kinds.schemas import KINDS
from tailbit.index.kinds.settings import FORMAT
from tailbit.index.maintenance.merge import merge_all
from tailbit.index.store.table import MetadataTable

PAGE = Path(__file__).parents[2] / "docs" / "index-format.md"
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])

Positions = Callable[[str, str, int | str | None], tuple[int, dict[str, BitMap]]]


def code() -> str:
    [found] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(found)


@pytest.fixture
def positions() -> Positions:
    names: dict[str, Any] = {"__name__": "reader"}
    exec(compile(code(), str(PAGE), "exec"), names)
    found: Positions = names["positions"]
    return found


def rows(first: int) -> pa.Table:
    keys = range(first, first + 30)
    return pa.table(
        {
            "k": pa.array([k % 4 - 1 for k in keys], pa.int64()),
            "v": [None if k % 7 == 0 else f"v{k % 3}" for k in keys],
        }
    )


@pytest.mark.parametrize("merged", [False, True])
def test_the_reader_in_the_page_finds_what_is_in_the_data(
    tmp_path: Path, positions: Positions, merged: bool
) -> None:
    table = DeltaBuilder(str(tmp_path / "t")).create(SCHEMA, features=["deletionVectors"])
    content = {f"f{at}": rows(at * 30) for at in range(9)}
    built: Built | None = None
    for path, data in content.items():
        table.commit([table.data_file(data, path)])
        built = built or Built(table.path, str(tmp_path / "i"), ["k", "v"])
        built.run()
    assert built is not None
    hidden = [0, 3, 29]
    (vector,) = table.stored_vectors(hidden)
    table.commit(table.hide("f2", vector))
    built.run()
    if merged:
        assert merge_all(MetadataTable.open(built.index)) > 0
    for column, values in (("k", [-1, 0, 2, 9]), ("v", ["v1", "nothing", None])):
        for value in values:
            version, found = positions(built.index, column, value)
            assert version == 10
            assert found == {
                path: BitMap(
                    r
                    for r, v in enumerate(data[column].to_pylist())
                    if v == value and not (path == "f2" and r in hidden)
                )
                for path, data in content.items()
            }


def test_the_reader_in_the_page_has_fifty_lines() -> None:
    lines = [line for line in code().splitlines() if line.strip()]
    assert len(lines) <= 50


def test_the_page_names_every_kind_and_every_column() -> None:
    page = PAGE.read_text()
    for kind in KINDS:
        assert f"`{kind.name}`" in page
        for name in kind.schema.names:
            assert f"`{name}`" in page
    assert f"number {FORMAT}" in page
