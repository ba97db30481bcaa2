"""The rows of versions in DuckDB, as the maker of the table knows them to be live."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from support.analytics.questions import Question
from support.fuzzer.model import State


class LiveRows:
    """Rows of versions, given to DuckDB once each, and what it says of them."""

    def __init__(self, engine: duckdb.DuckDBPyConnection) -> None:
        self.engine = engine
        self._tables: dict[int, tuple[str, State]] = {}

    def rows(self, sql: str, zone: str = "UTC") -> list[tuple[Any, ...]]:
        """The rows of a query as Python values."""
        self.engine.execute(f"SET TimeZone = '{zone}'")
        table = self.engine.sql(sql).to_arrow_table()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def matching(self, question: Question) -> str:
        """The rows that are asked about, as SQL."""
        return f"{self._live(question.state)} WHERE coalesce({question.where.duckdb}, FALSE)"

    def values(self, question: Question) -> list[Any]:
        """The values that are not NULL of one column, row by row."""
        (value,) = expressions(question)
        sql = f"SELECT {value} FROM {self.matching(question)} AND {question.columns[0].duckdb} IS NOT NULL"
        return [row[0] for row in self.rows(sql)]

    def _live(self, state: State) -> str:
        if id(state) not in self._tables:
            name = f"version_{len(self._tables)}"
            rows = state.rows()
            maps = [field.name for field in rows.schema if pa.types.is_map(field.type)]
            self.create(name, rows.drop_columns(maps))
            # The state is kept, since another could get its id.
            self._tables[id(state)] = name, state
        return self._tables[id(state)][0]

    def create(self, name: str, rows: pa.Table) -> None:
        """A table of DuckDB's own, of Arrow's rows."""
        self.engine.register("given", rows)
        self.engine.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM given")
        self.engine.unregister("given")


def expressions(question: Question) -> list[str]:
    """The columns in DuckDB's SQL; -0.0 is 0.0."""
    pairs = zip(question.columns, question.types, strict=True)
    return [unsigned(column.duckdb, type_) for column, type_ in pairs]


def unsigned(value: str, type_: pa.DataType) -> str:
    """A value in SQL, 0.0 in place of -0.0."""
    zero = f"CAST(0 AS {'FLOAT' if type_ == pa.float32() else 'DOUBLE'})"
    return f"({value} + {zero})" if pa.types.is_floating(type_) else value
