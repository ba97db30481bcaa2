"""Pages are where their headers say, whichever way a header is read."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.odd_parquet import LAYOUTS, TABLE
from tailbit.tables.parquet.data_file import open_layout
from tailbit.tables.parquet.layout import Pages
from tailbit.tables.parquet.thrift import read_struct
from tailbit.tables.storage import LocalStorage

DATA, DICTIONARY = 0, 2


def _walked(data: bytes, chunk: pq.ColumnChunkMetaData) -> list[tuple[int, int, int, int, int, int]]:
    """Kind, start, end, unpacked bytes, values and encoding of each page, all headers read field by field."""
    at = chunk.dictionary_page_offset or chunk.data_page_offset
    end, out = at + chunk.total_compressed_size, []
    while at < end:
        header, after = read_struct(data, at)
        of: dict[int, Any] = header.get(5) or header.get(7) or header[8]
        encoding = of[4] if 8 in header else of[2]
        out.append((header[1], at, after + header[3], after - at + header[2], of[1], encoding))
        at = after + header[3]
    return out


def _pages_of(pages: Pages) -> list[tuple[int, int, int, int]]:
    firsts = pages.firsts.tolist()
    counts = [after - first for first, after in itertools.pairwise(firsts)]
    return list(zip(pages.starts.tolist(), pages.ends.tolist(), pages.unpacked.tolist(), counts, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pages_of_any_layout_are_those_that_their_headers_say(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(TABLE, path, **{"row_group_size": 1100, **LAYOUTS[layout]})
    data, found = path.read_bytes(), open_layout(LocalStorage(str(tmp_path)), "f.parquet")
    seen = 0
    with pa.OSFile(str(path)) as source:
        for group in range(found.metadata.num_row_groups):
            for leaf in range(found.metadata.num_columns):
                pages = found.pages(source, group, leaf)
                if pages is None:
                    continue
                walked = _walked(data, found.metadata.row_group(group).column(leaf))
                values = [page for page in walked if page[0] != DICTIONARY]
                assert _pages_of(pages) == [page[1:5] for page in values]
                assert pages.coded.tolist() == [page[5] in (2, 8) for page in values]
                dictionary = next((page for page in walked if page[0] == DICTIONARY), None)
                assert (dictionary is None) == (pages.dictionary is None)
                if dictionary is not None and pages.dictionary is not None:
                    assert (pages.dictionary.start, pages.dictionary.end) == dictionary[1:3]
                    assert (pages.dictionary.unpacked, pages.dictionary.values) == dictionary[3:5]
                seen += 1
    assert seen


def test_files_of_one_schema_and_other_texts_have_trees_of_their_own(tmp_path: Path) -> None:
    one = pa.table({"k": pa.array(["a"]).dictionary_encode()})
    pq.write_table(one, tmp_path / "coded.parquet")
    pq.write_table(one, tmp_path / "plain.parquet", store_schema=False)
    storage = LocalStorage(str(tmp_path))
    coded, plain = (open_layout(storage, f"{name}.parquet") for name in ("coded", "plain"))
    assert pa.types.is_dictionary(coded.tree.children[0].field.type)
    assert plain.tree.children[0].field.type == pa.string()


def test_files_whose_schemas_begin_alike_have_heads_of_their_own(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path))
    names = [f"column_{number}" for number in range(20)]
    for last in ("x", "y"):
        pq.write_table(pa.table({name: [1] for name in [*names, last]}), tmp_path / f"{last}.parquet")
    layouts = [open_layout(storage, f"{last}.parquet") for last in ("x", "y", "x")]
    assert [layout.tree.children[-1].field.name for layout in layouts] == ["x", "y", "x"]
    assert len({layout.head for layout in layouts}) == 2
