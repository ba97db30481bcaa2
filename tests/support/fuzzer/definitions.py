"""Random index definitions of every kind over the columns of any table, and how they come and go."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import tailbit
from tailbit.errors import (
    ColumnTypeError,
    IndexNameTakenError,
    PredicateError,
    StatementError,
    UnknownColumnError,
)
from tailbit.index.maintenance.definitions import add, define
from tailbit.index.sql.ddl.statements import CreateIndex, TableReference, WrittenExpression
from tailbit.index.store.table import MetadataTable
from tailbit.tables import open_table

_ANY = (
    *("{c}", "hash({c})", "hash({c}, {d})", "{c} IS NULL", "coalesce({c}, {c})", "nullif({c}, {c})"),
    *("CAST({c} AS STRING)", "substr(CAST({c} AS STRING), 1, 2)", "length(CAST({c} AS STRING))"),
    *("CAST({c} AS STRING) || CAST({d} AS STRING)", "coalesce(CAST({c} AS STRING), CAST({d} AS STRING))"),
    *("md5(CAST({c} AS STRING))", "{c} = {c}", "{c} < {d}"),
)
"""Expressions of one column or two that are of most types."""

_SOME = (
    *(
        "lower({c})",
        "substr({c}, 1, 1)",
        "left({c}, 2)",
        "{c} || 'x'",
        "{c} LIKE 'a%'",
        "size({c})",
        "{c}[0]",
    ),
    *("date_trunc('MONTH', {c})", "date_trunc('HOUR', {c})", "year({c})", "trunc({c}, 'YEAR')"),
    *(
        "{c} + 1",
        "{c} * -2",
        "10 - {c}",
        "10 / {c}",
        "floor({c})",
        "round({c}, 1)",
        "abs({c})",
        "pmod({c}, 3)",
    ),
    *("CAST({c} AS INT)", "TRY_CAST({c} AS INT)", "CAST({c} AS DOUBLE)", "CAST({c} AS DATE)"),
    *("{c} AND {d}", "NOT {c}", "{c} > 1", "{c} + {d}", "greatest({c}, {d})"),
)
"""Expressions of columns of some types, refused for others."""

_KINDS = ("bitmap", "bitmap", "tuples", "tuples", "column_stats", "record_key", "bloom_filter")


REFUSALS = (
    PredicateError,
    StatementError,
    UnknownColumnError,
    ColumnTypeError,
    IndexNameTakenError,
)
"""How a definition is refused that cannot be kept, or that there is already."""


@dataclass(frozen=True)
class RandomDefinition:
    """What an index is created with."""

    on: tuple[str, ...]
    kind: str = "bitmap"
    only: str | None = None


def random_definition(
    rng: random.Random, columns: Sequence[str], partitions: Sequence[str] = ()
) -> RandomDefinition:
    """Return a definition over columns named as SQL; it may be refused."""
    kind = rng.choice(_KINDS)
    part = rng.choice(partitions) if partitions and rng.random() < 0.2 else None
    only = None if part is None else f"{part} IS {rng.choice(('', 'NOT '))}NULL"
    if kind == "column_stats":
        chosen = (random_term(rng, columns) for _ in range(rng.randint(1, len(columns))))
        return RandomDefinition(("*",) if rng.random() < 0.4 else tuple(chosen), kind, only)
    if kind in ("record_key", "bloom_filter"):
        return RandomDefinition(
            tuple(rng.sample(columns, min(len(columns), rng.choice((1, 1, 2))))), kind, only
        )
    count = 1 if kind == "bitmap" else rng.choice((2, 2, 3, 4))
    return RandomDefinition(tuple(random_term(rng, columns) for _ in range(count)), only=only)


def random_term(rng: random.Random, columns: Sequence[str]) -> str:
    """Return a column or an expression over one column or two."""
    roll = rng.random()
    shape = "{c}" if roll < 0.35 else rng.choice(_ANY if roll < 0.6 else _SOME)
    return shape.format(c=rng.choice(columns), d=rng.choice(columns))


def create(path: str, name: str, made: RandomDefinition) -> bool:
    """Create an index by name and build it; return whether it is one that tailbit keeps."""
    try:
        tailbit.open(path).create_index(name, made.on, made.kind, made.only)
    except REFUSALS:
        return False
    return True


def name_only(path: str, name: str, made: RandomDefinition, index: MetadataTable | None = None) -> bool:
    """Add an index by name that the indexer is to build; return whether it is one that tailbit keeps."""
    only = None if made.only is None else WrittenExpression(made.only)
    terms = tuple(map(WrittenExpression, made.on))
    try:
        statement = CreateIndex(name, TableReference("path", (path,)), terms, made.kind, only=only)
        schema = open_table(path).snapshot().schema
        add(index or MetadataTable.open(f"{path}/_tailbit"), define(statement, schema), schema)
    except REFUSALS:
        return False
    return True


def drop_one(path: str, rng: random.Random) -> None:
    """Drop an index, where more than one would be left."""
    opened = tailbit.open(path)
    known = [index.name for index in opened.indexes()]
    if len(known) > 1:
        opened.drop_index(rng.choice(known))
