"""Index definitions of expressions, added to an index as a statement would."""

from __future__ import annotations

from pathlib import Path

import tailbit
from support.drive import Drive
from tailbit.index.maintenance.alter import alter
from tailbit.index.model import Definition, new_id
from tailbit.index.sql.terms import term_of


def define(table: str | Path, *texts: str, zone: str = "UTC", drain: bool = True) -> Drive:
    """Add a bitmap of each expression to the index of a table, build them unless told not to."""
    drive = Drive(table, f"{table}/_tailbit")
    schema = tailbit.open(table).where()._selection.snapshot.schema
    terms = [term_of(text, schema, zone) for text in texts]
    alter(drive.index, [Definition(new_id(), term.text, "bitmap", (term,)) for term in terms], [])
    if drain:
        drive.drain()
    return drive
