"""Whether the recorded value counts may serve a question, and their keys where they may.

The index keeps, per value of a column, the number of visible rows of one version only: the version of its
ledger. All that must hold for an answer to use them is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from tailbit.errors import ColumnTypeError, CorruptIndexError
from tailbit.index.keys import MAX_KEY, is_textual
from tailbit.index.kinds.value_counts import Counts
from tailbit.index.model import Ledger, LedgerState
from tailbit.index.predicate.tree import Constant
from tailbit.index.query.selection import Selection
from tailbit.index.store.state import IndexState
from tailbit.tables.model import Column


@dataclass(frozen=True)
class RecordedCounts:
    """The value counts of an index that speaks of this source, good as long as it stands where it stood.

    `stand`: identity and number of the last change of the index; one built anew has another identity.
    """

    index: IndexState
    ledger: Ledger
    stand: tuple[str, int]

    @classmethod
    def now(cls, index: IndexState, ledger: Ledger) -> RecordedCounts:
        """Those of an index as it stands now, with the ledger that says what they count."""
        return cls(index, ledger, (index.index_id, index.seq))

    def of(self, selection: Selection, column: Column, key_type: str) -> Counts | None:
        """The counts of a column, where they answer what a selection asks; None where they may not serve.

        They serve where every row is asked for, at the version of a complete index in whose counts every
        live file is, of a column that is posted for every file; where the index has not moved on since; and
        where every key holds its whole value in the column's current type.
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
        return None if counts is None or has_truncated(counts[0], key_type) else counts

    def _stored(self, column_id: str, key_type: str) -> Counts | None:
        """What the index has of a column; None where it has moved on or lacks the column."""
        with self.index.lock:
            settings, stand = self.index.settings, (self.index.index_id, self.index.seq)
            if stand != self.stand or column_id not in {c.id for c in settings.columns}:
                return None
            return self.index.value_counts(column_id, key_type)

    def _speak_of(self, selection: Selection) -> bool:
        """Whether they are those of the version asked for, as a whole."""
        ledger = self.ledger
        complete = ledger.state is LedgerState.COMPLETE
        return complete and ledger.version == selection.version and not ledger.uncounted


def _whole_column(selection: Selection, column: Column) -> bool:
    """Whether every row is asked for, and each has its value of a column posted, in the zone of the keys."""
    everything = selection.node == Constant(True) and selection.coverage.posts_everywhere(column.id)
    return everything and column.zone == "UTC"


def has_truncated(keys: pa.BinaryArray, key_type: str) -> bool:
    """Whether a key holds only the beginning of its value."""
    return is_textual(key_type) and (pc.max(pc.binary_length(keys)).as_py() or 0) > MAX_KEY
