"""The worked example of the module: eight rows of two sorted files meet by key."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tailbit.index.parquet.sorted_rows import aligned


def batches(*keys: str) -> Iterator[pa.Table]:
    return iter([pa.table({"key": list(batch)}) for batch in keys])


def test_the_eight_rows_of_the_docstring_meet_as_it_says() -> None:
    met = [table["key"].to_pylist() for table in aligned([batches("ABD", "E"), batches("AC", "DF")], ["key"])]
    assert ["".join(keys) for keys in met] == ["ABAC", "DD", "E", "F"]
