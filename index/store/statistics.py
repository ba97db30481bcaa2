"""Sizes of an index, from its log alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tailbit.base.dataclass import dataclass
from tailbit.index.kinds.rows import kind_of
from tailbit.index.postings.layout import NAME as POSTINGS
from tailbit.index.store.state import IndexState
from tailbit.tables.model import Version


@dataclass(frozen=True, slots=True)
class IndexStatistics:
    """Sizes of an index: live files and bytes per kind, segments, row spaces."""

    version: int
    files: Mapping[str, int]
    bytes: Mapping[str, int]
    segments: int
    spaces: int


def statistics_of(version: Version, state: IndexState) -> IndexStatistics:
    """Return the sizes of an index at a version of its own log. No file is read."""
    files: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for path, file in state.files.items():
        files[kind_of(path)] += 1
        sizes[kind_of(path)] += file.size
    return IndexStatistics(version, files, sizes, files[POSTINGS], len(state.spaces))
