"""Pruning of a data file's row groups by the Bloom filters that its writer left in the file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailbit.base.arrays import Mask
from tailbit.tables.model import Column
from tailbit.tables.parquet.bloom.values import hashes_in_file
from tailbit.tables.parquet.bloom.written import groups_with_filter, may_hold
from tailbit.tables.parquet.data_file import field_of, named_file
from tailbit.tables.parquet.layout import Layout
from tailbit.tables.storage import Storage


def groups_with_any(
    storage: Storage, layout: Layout, path: str, column: Column, groups: Sequence[int], values: Sequence[Any]
) -> Mask:
    """Return, for each of some row groups, whether it may hold one of some values; True without a filter.

    `values`: canonical, of the column's type. Cost: nothing where the footer names no filter of the column.

    Raises:
        DataFileError: the name of the column is ambiguous in the file, or the file is gone.
    """
    every = np.ones(len(groups), dtype=np.bool_)
    steps = field_of(layout, column, path)
    if not steps or steps[-1].children:
        return every
    leaf = steps[-1].first
    having = groups_with_filter(layout, leaf)
    filtered = [at for at, group in enumerate(groups) if group in having]
    hashes = hashes_in_file(values, column, layout, steps[-1]) if filtered else None
    if hashes is None:
        return every
    with named_file(storage, path), storage.open(storage.resolve(path)) as source:
        for at in filtered:
            every[at] = bool(may_hold(source, layout, groups[at], leaf, hashes).any())
    return every
