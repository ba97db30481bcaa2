"""What an index says, whatever files it says it in: two indexes of one history must be equal in this."""

from __future__ import annotations

from dataclasses import dataclass, field

from pyroaring import BitMap

from tailbit.index.store.table import MetadataTable

Key = bytes | None


@dataclass
class Contents:
    """`postings`: (path, column, key) to physical rows; `counts`: (column, key) to visible rows, never 0.

    Values of an expression and tuples are those of the column of its text.
    """

    covered: int | None = None
    postings: dict[tuple[str, str, Key], BitMap] = field(default_factory=dict)
    counts: dict[tuple[str, Key], int] = field(default_factory=dict)


def contents_of(index_path: str) -> Contents:
    """Everything that the index claims about the files that are live at its covered version."""
    index = MetadataTable.open(index_path)
    found = Contents(index.state.ledger.covered if index.state.ledger else None)
    columns = {
        made.id: made.id if made.is_of_column else made.label
        for made in index.state.settings.definitions
        if made.has_postings
    }
    for record in index.state.recorded.live():
        if record.left is not None or record.space is None or record.base is None or record.rows is None:
            continue
        claim = BitMap(range(record.base, record.base + record.rows))
        for segment in index.state.segments_of(record.space):
            for column in columns.keys() & set(segment.columns):
                for key in segment.keys(column)[0].to_pylist():
                    rows = (segment.lookup(column, key) or BitMap()) & claim
                    if rows:
                        at = (record.path, columns[column], key)
                        found.postings[at] = found.postings.get(at, BitMap()) | rows.shift(-record.base)
    for column in columns:
        keys, counts = index.state.value_counts(column)
        found.counts |= {
            (columns[column], key): n for key, n in zip(keys.to_pylist(), counts.tolist(), strict=True) if n
        }
    return found
