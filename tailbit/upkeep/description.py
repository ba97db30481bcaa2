"""What an index of a table holds, and how far it is built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import chain

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CorruptIndexError
from tailbit.index.grouping.unserved import change_of
from tailbit.index.maintenance.definitions import requirements_of
from tailbit.index.maintenance.rebuild import lacking, unrecorded_by_definition
from tailbit.index.model import COUNTS_REASON, DEFERRED, Definition
from tailbit.index.postings.encoding import encoding_of
from tailbit.index.sql.terms import zone_of
from tailbit.index.store.table import MetadataTable
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class IndexDescription:
    """One index of a table, and how far it is built.

    `terms`: columns or expressions, as SQL. `only`: the condition on partition columns of the files that it
    covers; empty for all. `zone`: the session time zone of the questions that it serves, if its values depend
    on it. `state`: "complete", "building", or "deferred" until the first rebuild. `files_left`: live files
    that it is still to be built for. `bytes`: size of its postings, told by `describe_index` alone.
    `indexer`: the running indexer that builds it.
    `counts_reason`: why the values are not counted, if that was decided from a sample of the data. `changed`:
    which column is gone or has another type than it had, so that questions read the data; empty for none.
    """

    name: str
    kind: str
    terms: tuple[str, ...]
    state: str
    files_left: int = 0
    only: str = ""
    zone: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    bytes: int | None = None
    indexer: str | None = None
    counts_reason: str = ""
    changed: str = ""


def described(
    index: MetadataTable, definitions: Sequence[Definition], snapshot: Snapshot
) -> list[IndexDescription]:
    """Describe some definitions. Cost: one pass over the records of the files.

    `snapshot`: the newest, whose files an index whose first build goes on is still to be built for.
    """
    schema, ledger = snapshot.schema, index.state.ledger
    files_left = {
        id_: files
        for id_, (files, _) in lacking(index.state, requirements_of(definitions, schema)).unbuilt().items()
    }
    is_begun = ledger is not None and ledger.covered is not None
    unrecorded = {} if is_begun else unrecorded_by_definition(index.state, snapshot)
    return [_description(d, files_left.get(d.id, 0) + unrecorded.get(d.id, 0), schema) for d in definitions]


def _description(definition: Definition, files_left: int, schema: Schema) -> IndexDescription:
    internal = (DEFERRED, COUNTS_REASON)
    state = "deferred" if definition.is_deferred else "building" if files_left else "complete"
    return IndexDescription(
        name=definition.name,
        kind=definition.kind,
        terms=tuple(term.text for term in definition.terms) or ("*",),
        state=state,
        files_left=files_left,
        only=definition.only,
        zone=zone_of(definition, schema),
        options={key: text for key, text in definition.options.items() if key not in internal},
        counts_reason=definition.options.get(COUNTS_REASON, ""),
        changed=change_of(definition, schema),
    )


def bytes_of(index: MetadataTable, definition: Definition) -> int | None:
    """Return the bytes of the postings of a definition; None if it has none, or a footer cannot be read."""
    if not definition.has_postings:
        return None
    try:
        return encoding_of(chain.from_iterable(index.state.spaces.values()), definition.id).bytes
    except CorruptIndexError:
        return None
