"""Row spaces that are due for merging: of full size classes, or with mostly unreachable rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from tailbit.base.errors import ColumnTypeError
from tailbit.index.keys import widen_keys, widest
from tailbit.index.kinds.files.recorded import RecordedFiles
from tailbit.index.kinds.kind import View
from tailbit.index.kinds.merging import FAN_IN, MergeGroup, size_class
from tailbit.index.model import ROWS_PER_SPACE, Settings
from tailbit.index.postings.layout import NAME
from tailbit.index.postings.segment import Segment
from tailbit.tables.arrow import arrow_array

Spaces = Mapping[str, Sequence[Segment]]


def due_spaces(
    spaces: Spaces, view: View, recorded: RecordedFiles, earliest: int | None
) -> Iterator[MergeGroup]:
    """Yield the merges that are due: row spaces of one size class together, then single row spaces.

    Row spaces are merged together if their class is full and their rows fit into one row space. A row space
    is merged alone if it has no claims, if half or more of its claimed rows are unreachable, or if it has
    postings of a dropped column.
    """
    claims = recorded.claim_counts()
    classes: dict[int, list[str]] = {}
    spent = {space for space in spaces if space not in claims} | _with_dropped(spaces, view.settings)
    if earliest is not None:
        spent |= recorded.mostly_unreachable(earliest) & spaces.keys()
    for space, segments in spaces.items():
        size = sum(view.files[s.path].size for s in segments)
        classes.setdefault(size_class(size, claims.get(space, 0)), []).append(space)
    alone = spent
    for number, members in sorted(classes.items()):
        if len(members) >= FAN_IN:
            fitting = _fitting(recorded, _alike(spaces, [s for s in members if s not in spent]))
            if len(fitting) > 1:
                alone = alone - set(fitting)
                yield _group(spaces, fitting, number)
    yield from (_group(spaces, [space], 0) for space in sorted(alone))


def _group(spaces: Spaces, members: Sequence[str], number: int) -> MergeGroup:
    inputs = tuple(segment.path for space in members for segment in spaces[space])
    return MergeGroup(NAME, inputs, tuple(members), number)


def _with_dropped(spaces: Spaces, settings: Settings) -> set[str]:
    """Return the row spaces with postings of a dropped column.

    Cost: reads the footers of segments, if any column was dropped.
    """
    gone = set(settings.dropped).difference(definition.id for definition in settings.definitions)
    if not gone:
        return set()
    return {space for space, held in spaces.items() if any(not gone.isdisjoint(s.columns) for s in held)}


def _alike(spaces: Spaces, members: Sequence[str]) -> list[str]:
    """Return the largest set of row spaces whose keys are compatible in every column.

    After REPLACE TABLE a column may have a new type, to which the old type does not widen, or widens without
    some of the old values.
    """
    groups: list[tuple[list[str], dict[str, set[str]]]] = []
    for space in members:
        types = _types(spaces[space])
        for group, known in groups:
            united = {column: known.get(column, set()) | key_types for column, key_types in types.items()}
            if _all_widen((*group, space), spaces, united):
                group.append(space)
                for column, key_types in types.items():
                    known.setdefault(column, set()).update(key_types)
                break
        else:
            groups.append(([space], types))
    return max((group for group, _ in groups), key=len, default=[])


def _all_widen(members: Sequence[str], spaces: Spaces, types: Mapping[str, set[str]]) -> bool:
    """Return whether the keys of some row spaces widen to one type in every column.

    Widening keeps the order, so that the least and the greatest key of a segment speak for all.
    """
    wide = {column: widest(key_types) for column, key_types in types.items()}
    if None in wide.values():
        return False
    several = {column: to for column, to in wide.items() if len(types[column]) > 1}
    if not several:
        return True
    try:
        for segment in (segment for space in members for segment in spaces[space]):
            for column, to in several.items():
                if to is not None and segment.columns.get(column, to) != to:
                    ends = arrow_array(segment.ends(column), pa.binary())
                    widen_keys(ends, segment.columns[column], to)
    except ColumnTypeError:
        return False
    return True


def _types(segments: Sequence[Segment]) -> dict[str, set[str]]:
    """Map each column of a row space to the key types of its segments."""
    types: dict[str, set[str]] = {}
    for segment in segments:
        for column, key_type in segment.columns.items():
            types.setdefault(column, set()).add(key_type)
    return types


def _fitting(recorded: RecordedFiles, spaces: Sequence[str]) -> list[str]:
    """Return the smallest row spaces, as many as fit into one row space together."""
    rows = {space: recorded.claimed_rows(space) for space in spaces}
    chosen, total = [], 0
    for space in sorted(spaces, key=lambda s: (rows[s], s)):
        if total + rows[space] > ROWS_PER_SPACE:
            break
        chosen.append(space)
        total += rows[space]
    return chosen
