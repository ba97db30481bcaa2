"""The answer to a question: what a predicate selects of one version of a table, asked for piece by piece."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from tailbit.arguments import names, text, whole
from tailbit.errors import CorruptIndexError
from tailbit.index.query.answer import Selection
from tailbit.tables.parquet.rows import Positions

_SHOWN = 200
"""Most characters of a predicate that a `repr` shows."""


class Answer:
    """The rows of one version of a table where a predicate is TRUE; nothing is computed unasked.

    It stays as it is while the table and the index move on. It comes from `IndexedTable.where`.
    """

    __slots__ = ("_path", "_selection")

    def __init__(self, path: str, selection: Selection) -> None:
        self._path = path
        self._selection = selection

    def __repr__(self) -> str:
        """Table, version and predicate in one line."""
        asked = self.predicate
        where = "" if asked is None else f", where={asked[:_SHOWN]!r}{'...' if len(asked) > _SHOWN else ''}"
        return f"Answer({self._path!r}, version={self.version}{where})"

    @property
    def predicate(self) -> str | None:
        """The condition as it was given; None where every row was asked for."""
        return self._selection.text

    @property
    def version(self) -> int:
        """The version of the table that is answered for."""
        return self._selection.version

    @property
    def covered_version(self) -> int | None:
        """The last version that the index held as a whole; None where there is none."""
        return self._selection.covered_version

    @property
    def files_scanned(self) -> int:
        """Files whose data had to be read to find the rows, as far as the question is answered yet."""
        return self._selection.files_scanned

    @property
    def files_in_table(self) -> int:
        """Files of the table at that version."""
        return len(self._selection.snapshot.files)

    @property
    def damaged(self) -> list[CorruptIndexError]:
        """Files of the index found damaged so far; the data was read instead, so the answer is right."""
        return self._selection.damaged

    def count(self) -> int:
        """Number of rows where the predicate is TRUE.

        Cost: the postings of the keys touched; plus the rows that must be rechecked and the uncovered files.
        """
        return self._selection.count()

    def facets(self, column: str) -> dict[Any, int]:
        """Matching rows per value of a column, the most frequent first; None stands for NULL.

        Served from the recorded value counts when all rows are asked for at the covered version, from the
        postings for covered files otherwise, and from the data for the rest. A date or time outside of
        Python's calendar is text.

        Raises:
            UnknownColumnError: no such column.
            ColumnTypeError: the column's type has no keys (struct, array, map ...).
        """
        return self._selection.facets(text("column", column))

    def positions(self) -> dict[str, Positions]:
        """Path (as the log names it, decoded) to ascending 0-based physical row positions, uint64."""
        return self._selection.positions()

    def files(self) -> list[str]:
        """Paths of the files that hold at least one matching row, in path order."""
        return self._selection.files()

    def read(self, columns: Iterable[str] | None = None, limit: int | None = None) -> pa.Table:
        """The matching rows, in the order of path and position, in the table's logical schema.

        `columns`: names, nested ones as "address.city"; each is given once, in the order of first mention.
        No two have one name in the table: where a field s.a and a column named "s.a" are both read, that
        column is named "`s.a`", in backticks, as one asks for it.

        Raises:
            UnknownColumnError: no such column.
            UsageError: `limit` is no whole number of 0 or more, or `columns` names none or is no list.
            DataFileError: a data file is gone or is not Parquet.
        """
        return self._selection.read(*_wanted(columns, limit))

    def stream(
        self, columns: Iterable[str] | None = None, limit: int | None = None
    ) -> tuple[pa.Schema, Iterator[pa.Table]]:
        """The schema and the rows of `read`, a table per row group. Memory: a row group and all positions."""
        return self._selection.stream(*_wanted(columns, limit))

    def explain(self) -> Mapping[str, Any]:
        """Per file: covered or not, kept or pruned and by what, rows; segments and bytes touched."""
        return self._selection.explain()


def _wanted(columns: Any, limit: Any) -> tuple[list[str] | None, int | None]:
    return (
        None if columns is None else names("columns", columns),
        None if limit is None else whole("limit", limit),
    )
