"""Indexes of several terms together, defined on a table that has an index."""

from __future__ import annotations

from support.tables import index_of
from tailbit.index.maintenance.alter import alter
from tailbit.index.model import BITMAP, Definition, new_id
from tailbit.index.sql.terms import term_of
from tailbit.index.store.table import MetadataTable
from tailbit.tables.open import open_table


def define_tuples(path: str, *terms: str) -> Definition:
    """Add an index of some terms together to the index of a table, and build it."""
    schema = open_table(path).snapshot().schema
    definition = Definition(new_id(), "+".join(terms), BITMAP, tuple(term_of(term, schema) for term in terms))
    alter(MetadataTable.open(f"{path}/_tailbit"), [definition], [])
    index_of(path)
    return definition
