"""Kind `ledger`: how far the source log is indexed. The record of highest `seq` counts; one file is live."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from tailbit.base.errors import CorruptIndexError
from tailbit.index.kinds.kind import Kind, View
from tailbit.index.model import Ledger, LedgerState
from tailbit.tables.arrow import no_rows
from tailbit.tables.model import Fingerprint

if TYPE_CHECKING:
    from tailbit.index.kinds.kind import MergeGroup


class LedgerKind(Kind["Ledger | None"]):
    """Kind of the ledger; its reader is the newest record, or None before the first batch."""

    name: ClassVar[str] = "ledger"
    schema: ClassVar[pa.Schema] = pa.schema(
        [
            ("seq", pa.int64()),
            ("round", pa.int64()),
            ("lineage", pa.int64()),
            ("version", pa.int64()),
            ("state", pa.string()),
            ("covered", pa.int64()),
            ("fingerprint_version", pa.int64()),
            ("fingerprint_sha256", pa.string()),
            ("fingerprint_table", pa.string()),
            ("uncounted", pa.int64()),
            ("settings_version", pa.int64()),
            ("query_id", pa.string()),
            ("batch_id", pa.int64()),
            ("committed_at", pa.int64()),
            ("held", pa.string()),
        ]
    )

    def reader(self, view: View) -> Ledger | None:
        """Return the newest record. Cost: reads the live file, which has few rows."""
        tables = self.read_all(view)
        return ledger_from_arrow(pa.concat_tables([no_rows(self.schema), *tables]))

    def due(self, view: View, earliest: int | None) -> Iterator[MergeGroup]:
        """Return no groups: each commit replaces the previous file."""
        return iter(())


LEDGER = LedgerKind()


def ledger_to_arrow(ledger: Ledger) -> pa.Table:
    """Convert a ledger record to one row."""
    row = asdict(ledger)
    proof = ledger.fingerprint
    del row["fingerprint"]
    row["state"] = ledger.state.value
    row["fingerprint_version"] = None if proof is None else proof.version
    row["fingerprint_sha256"] = None if proof is None else proof.sha256
    row["fingerprint_table"] = None if proof is None else proof.table_id
    return pa.Table.from_pylist([row], schema=LEDGER.schema)


def ledger_from_arrow(table: pa.Table) -> Ledger | None:
    """Return the newest ledger record, or None if there is none."""
    if not len(table):
        return None
    row = max(table.to_pylist(), key=lambda r: int(r["seq"]))
    version, sha256, table_id = (row.pop(f"fingerprint_{n}") for n in ("version", "sha256", "table"))
    proof = None if version is None else Fingerprint(version, sha256, table_id)
    said = {"state": _state(row["state"]), "held": row["held"] or ""}
    return Ledger(**row | said, fingerprint=proof)


def _state(word: str) -> LedgerState:
    """Return the ledger state for a word stored in the index."""
    try:
        return LedgerState(word)
    except ValueError as unknown:
        reason = f"the state of a ledger is {word!r}, neither building nor complete"
        raise CorruptIndexError(file=f"kind={LEDGER.name}", reason=reason) from unknown
