"""Changes of the definitions of an index: settings, and the records of dropped columns, in one commit.

An added definition is only recorded: new files are indexed for it at once, and the indexer fills older files
while the stream runs; until a file is filled, its rows are scanned. A dropped definition is removed from the
records and the value counts at once, so that every state in between looks as if the index had never had it.
Its postings are removed when their row spaces are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import CommitConflictError
from tailbit.index.kinds.files import without_columns
from tailbit.index.kinds.schemas import KINDS
from tailbit.index.kinds.value_counts import Tally, write_value_counts
from tailbit.index.model import Definition, IndexFile, Ledger, Settings, raised_id
from tailbit.index.store.table import MetadataTable

ATTEMPTS = 20
"""Attempts to commit while an indexer runs, which commits a few times a second at most."""


@dataclass(frozen=True, slots=True)
class Altered:
    """The result of an alteration: labels of the changed definitions, and the `settings` after it."""

    added: tuple[str, ...]
    dropped: tuple[str, ...]
    settings: Settings


def alter(
    index: MetadataTable,
    add: Sequence[Definition],
    drop: Sequence[str],
    check: Callable[[Sequence[Definition]], None] = lambda known: None,
) -> Altered:
    """Add the definitions `add`, and drop those whose ids are in `drop`; keep the others.

    `check`: called with the present definitions, and again if another writer changed them; an error that it
    raises ends the alteration, and nothing is changed. An added definition whose name is taken gets a number
    after its name. Two concurrent alterations are applied one after the other, and both hold. Cost: for added
    definitions, one small commit; for dropped ones, a record per file and a count per distinct value.
    """

    def attempt() -> Altered:
        check(index.state.settings.definitions)
        return _attempt(index, add, drop)

    return retried(index, attempt)


T = TypeVar("T")


def retried(index: MetadataTable, attempt: Callable[[], T]) -> T:
    """Return the result of `attempt`, called again on the newest state if another writer commits first.

    Raises:
        CommitConflictError: other writers were first again and again.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return attempt()
        except CommitConflictError:
            index.refresh()
    return attempt()


def _attempt(index: MetadataTable, add: Sequence[Definition], drop: Sequence[str]) -> Altered:
    before = index.state.settings
    ids = {definition.id for definition in before.definitions}
    going = tuple(definition for definition in before.definitions if definition.id in drop)
    new = tuple({came.id: came for came in add if came.id not in ids}.values())
    staying = tuple(definition for definition in before.definitions if definition not in going)
    coming = tuple(_freely_named(came, staying) for came in new)
    altered = Altered(tuple(c.label for c in coming), tuple(c.label for c in going), before)
    if not coming and not going:
        return altered
    settings = change_definitions(index, staying + coming, [definition.id for definition in going])
    return replace(altered, settings=settings)


def _freely_named(definition: Definition, others: Iterable[Definition]) -> Definition:
    """Return a definition under its name, or with a number after its name if another definition has it."""
    used_names = {other.name.lower() for other in others}
    names = (definition.name, *(f"{definition.name}_{number}" for number in range(2, len(used_names) + 2)))
    return replace(definition, name=next(name for name in names if name.lower() not in used_names))


def change_definitions(
    index: MetadataTable, definitions: Sequence[Definition], gone: Sequence[str]
) -> Settings:
    """Commit settings with these definitions; those whose ids are in `gone` are taken out of the records."""
    before = index.state.settings
    settings = replace(
        before,
        version=before.version + 1,
        format=KINDS.format_of(definitions, before.format),
        definitions=tuple(definitions),
        dropped=tuple(sorted({*before.dropped, *gone})),
    )
    records = without_columns(index.state.recorded.table(), gone) if gone else []
    index.commit(records, _uncounted(index, gone), _ledger(index, settings), settings=settings)
    return settings


def _uncounted(index: MetadataTable, gone: Sequence[str]) -> list[IndexFile]:
    """Write a file of value counts that subtracts all counts of the definitions `gone`."""
    tally = Tally()
    for id_ in [*gone, *map(raised_id, gone)]:
        for key_type, (keys, counts) in index.state.stored_counts(id_):
            tally.add(id_, key_type, keys, np.negative(counts))
    written = write_value_counts(index.storage, tally)
    return [] if written is None else [written]


def _ledger(index: MetadataTable, settings: Settings) -> Ledger | None:
    """Return the ledger with the version of new settings, or None to leave the ledger as it is.

    The ledger is left if the present settings already request a new round: the request then stands.
    """
    ledger, before = index.state.ledger, index.state.settings
    if ledger is None or ledger.settings_version != before.version:
        return None
    return replace(ledger, settings_version=settings.version)
