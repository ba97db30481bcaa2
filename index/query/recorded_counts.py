"""Recorded value counts of an index, and the conditions under which they answer a question.

The index records, per value of a column, the number of visible rows at one version only: the version of its
ledger. This module checks every condition for using these counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, CorruptIndexError
from tailbit.base.lazy import lazy
from tailbit.index.kinds.value_counts import Counts
from tailbit.index.model import RAISED_TYPE, Ledger, LedgerState, is_of_term, raised_id
from tailbit.index.predicate.tree import Constant
from tailbit.index.query.selection import Selection
from tailbit.index.store.state import IndexState
from tailbit.tables.model import Column

if TYPE_CHECKING:
    from tailbit.index import tuple_keys
else:
    tuple_keys = lazy("tailbit.index.tuple_keys")


@dataclass(frozen=True)
class RecordedCounts:
    """The value counts of an index that describes this source, valid as long as the index does not change.

    `stand`: identity and number of the last change of the index; a rebuilt index has another identity.
    """

    index: IndexState
    ledger: Ledger
    stand: tuple[str, int]

    @classmethod
    def now(cls, index: IndexState, ledger: Ledger) -> RecordedCounts:
        """Return the counts of an index in its current state; `ledger`: the record of what is counted."""
        return cls(index, ledger, (index.index_id, index.seq))

    @property
    def of_tuples(self) -> bool:
        """Return whether the index counts tuples of several columns or terms."""
        return any(len(definition.terms) > 1 for definition in self.index.settings.definitions)

    def of(self, selection: Selection, column: Column, key_type: str) -> Counts | None:
        """Return the counts of a column if they answer a selection; else None.

        The counts answer it if the selection has every row, at the version of a complete index whose counts
        include every live file; if the column is posted and counted for every file; if the index has not
        changed since `now`; and if every key holds its whole value in the column's current type.
        """
        if not (self._speak_of(selection) and _whole_column(selection, column)):
            return None
        try:
            counts = self._stored(column.id, key_type)
        except ColumnTypeError:
            return None
        except CorruptIndexError as damage:
            selection.damages.note(damage)
            return None
        return None if counts is None or tuple_keys.truncated(counts[0], key_type) is not None else counts

    def _stored(self, column_id: str, key_type: str) -> Counts | None:
        """Read the counts of a column from the index; None if the index has changed or does not count it."""
        with self.index.lock:
            settings, stand = self.index.settings, (self.index.index_id, self.index.seq)
            if stand != self.stand or column_id not in {d.id for d in settings.definitions if d.has_counts}:
                return None
            if is_of_term(column_id) and self._raises(column_id):
                return None
            return self.index.value_counts(column_id, key_type)

    def _raises(self, id_: str) -> bool:
        """Return whether the expression of a definition raises for some visible row."""
        return bool(len(self.index.value_counts(raised_id(id_), RAISED_TYPE)[0]))

    def _speak_of(self, selection: Selection) -> bool:
        """Return whether the counts include every live file and are of the selection's version."""
        ledger = self.ledger
        complete = ledger.state is LedgerState.COMPLETE
        return complete and ledger.version == selection.version and not ledger.uncounted


def _whole_column(selection: Selection, column: Column) -> bool:
    """Return whether a selection has all rows, every file has postings of the column, and its zone is UTC."""
    everything = selection.node == Constant(True) and selection.coverage.posts_everywhere(column.id)
    return everything and column.zone == "UTC"
