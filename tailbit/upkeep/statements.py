"""Index statements in SQL: the text is parsed, its table is opened, and the table carries it out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NoReturn

from tailbit.arguments.values import known_zone, path_text, text
from tailbit.base.errors import NotATableError
from tailbit.checkpoints.builds import Builds
from tailbit.handle import opened
from tailbit.index.sql.ddl.parser import parse_statement
from tailbit.index.sql.ddl.refusals import refuse_statement
from tailbit.index.sql.ddl.statements import (
    CreateIndex,
    DescribeIndex,
    RebuildIndex,
    ShowIndexes,
    Statement,
    TableReference,
)
from tailbit.index.store.place import index_path
from tailbit.tables import open_table
from tailbit.tables.open import named_in_catalog
from tailbit.tables.storage import StorageOptions
from tailbit.upkeep.description import IndexDescription
from tailbit.upkeep.table import MaintainedTable


def sql(
    statement: str,
    zone: str = "UTC",
    storage_options: Mapping[str, str] | None = None,
    index: str | os.PathLike[str] | None = None,
) -> list[dict[str, Any]]:
    """Carry out an index statement of SQL, as Hudi, Hive and Spark write it; return a dict per index.

    CREATE INDEX, ALTER INDEX ... REBUILD and DESCRIBE INDEX return one, SHOW INDEXES one per index, DROP
    INDEX none; the fields are those of `IndexDescription`. A table is ``delta.`path` ``, a path in quotes,
    the name of a folder in the working directory, or `catalog.namespace.table` of a catalog that pyiceberg
    knows; `tailbit.spark.sql` knows the names of Spark's catalogs. `zone` is the session time zone, which a
    term over timestamps is kept in. `index`: where the index is.

    Raises:
        StatementError: the text is no index statement, or asks for something that does not exist; says where.
        NotATableError: there is no such table.
        TailbitError: as of `create_index`, `rebuild_index`, `drop_index` and `describe_index`.

    >>> import tailbit
    >>> tailbit.sql("CREATE INDEX by_place ON flights USING bitmap (lower(dest))")[0]["state"]
    'complete'
    >>> [(index["name"], index["terms"]) for index in tailbit.sql("SHOW INDEXES FROM flights")]
    [('carrier', ['carrier']), ('by_place', ['lower(dest)'])]
    >>> tailbit.sql("DROP INDEX by_place ON flights")
    []
    """
    zone = known_zone("zone", zone)
    parsed = parse_statement(text("statement", statement))
    table = table_of(parsed, statement, storage_options, None if index is None else path_text("index", index))
    return [as_dict(description) for description in run(table, parsed, zone)]


def run(
    table: MaintainedTable, statement: Statement, zone: str = "UTC", builds: Builds | None = None
) -> list[IndexDescription]:
    """Carry out a statement on its table; return the indexes that it is about, none for DROP.

    `zone`: as of `create_index`. `builds`: gets the record of the build.
    """
    if isinstance(statement, CreateIndex):
        return [table._created(statement, zone, builds)]
    if isinstance(statement, RebuildIndex):
        return [table._rebuilt(statement, builds)]
    if isinstance(statement, ShowIndexes):
        return table.indexes()
    if isinstance(statement, DescribeIndex):
        return [table.describe_index(statement.name)]
    table.drop_index(statement.name, statement.if_exists)
    return []


def table_of(
    statement: Statement, source: str, storage_options: Mapping[str, str] | None, index: str | None
) -> MaintainedTable:
    """Open the table of a statement with its index; CREATE may name a place where no index is yet.

    Raises:
        StatementError: the working directory has no folder of that name that holds a table.
        NotATableError: there is no table at a path.
        NoIndexError: `index` is given, and there is no index.
    """
    path = _path_of(statement.table, source, storage_options)
    if isinstance(statement, CreateIndex):
        return table_for(path, storage_options, index)
    return opened(MaintainedTable, path, index, storage_options)


def table_for(path: str, storage_options: Mapping[str, str] | None, index: str | None) -> MaintainedTable:
    """Open the table at a path for the creation of indexes: there may be none yet at the place `index`.

    Raises:
        NotATableError: there is no table at the path.
    """
    table = opened(MaintainedTable, path, storage_options=storage_options)
    return table if index is None else MaintainedTable(table._table, index_path(table.path, index))


def as_dict(description: IndexDescription) -> dict[str, Any]:
    """Return a description as a dict, with lists where it has tuples."""
    fields = asdict(description)
    return {**fields, "terms": list(description.terms), "options": dict(description.options)}


def _path_of(table: TableReference, source: str, storage_options: Mapping[str, str] | None) -> str:
    """Return the path of a table; a single name is that of a folder in the working directory."""
    if table.kind == "path":
        return table.text
    if len(table.parts) > 1:
        uri = named_in_catalog(table.parts)
        if uri is not None:
            return uri
        _refuse_name(table, source, "is a name of a catalog")
    (name,) = table.parts
    try:
        open_table(os.path.join(os.curdir, name), StorageOptions.of(storage_options or {}))
    except NotATableError as nothing:
        _refuse_name(table, source, f"is no table in the working directory: {nothing.fields['reason']}")
    return name


def _refuse_name(table: TableReference, source: str, reason: str) -> NoReturn:
    hint = (
        f"Write its path, delta.`/path/of/{table.parts[-1]}`, or let Spark find it: "
        f"tailbit.spark.sql(spark, ...) knows the names of its catalogs. A catalog of Iceberg tables must be "
        f"described by pyiceberg's configuration."
    )
    refuse_statement(source, f"{table.text} {reason}", table.place, hint)
