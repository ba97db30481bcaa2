"""Request of a new round, in which the indexer checks every file and posts those that are not posted."""

from __future__ import annotations

from dataclasses import replace

from tailbit.index.store.table import MetadataTable


def ask_for_round(index: MetadataTable) -> None:
    """Request a round, in which the indexer looks at every file, by a commit of unchanged settings.

    The settings get the next version, as after an added column.

    Raises:
        CommitConflictError: another writer was first; nothing is changed.
    """
    settings = index.state.settings
    index.commit([], [], None, settings=replace(settings, version=settings.version + 1))
