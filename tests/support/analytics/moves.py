"""What left and what came between two versions, by DuckDB."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from support.analytics.answers import plain
from support.analytics.live import LiveRows, unsigned
from support.analytics.questions import Question, later, same_column
from support.fuzzer.model import State, path_of


def moved_rows(live: LiveRows, question: Question) -> list[tuple[Any, ...]]:
    """Rows with their value that one version has and the other has not, by file, its content and position."""
    (type_,) = question.types
    for name, state in (("before", question.state), ("after", question.more)):
        live.create(name, _placed(question, state, type_))
    value = unsigned("v", type_)
    moved = " UNION ALL ".join(
        f"SELECT {value} AS v, {flags} FROM {one} AS mine WHERE NOT EXISTS (SELECT 1 FROM {other} AS theirs"
        " WHERE mine.file = theirs.file AND mine.content = theirs.content AND mine.position = theirs.position"
        " AND mine.v IS NOT DISTINCT FROM theirs.v)"
        for one, other, flags in (
            ("before", "after", "1 AS gone, 0 AS come"),
            ("after", "before", "0 AS gone, 1 AS come"),
        )
    )
    rows = live.rows(
        f"SELECT v, sum(gone)::BIGINT AS gone, sum(come)::BIGINT AS come FROM ({moved}) GROUP BY v"
        " ORDER BY sum(gone) + sum(come) DESC, v ASC NULLS FIRST"
    )
    return [(plain(v), gone, come) for v, gone, come in rows]


def _placed(question: Question, state: State, type_: pa.DataType) -> pa.Table:
    """Where each row of a version is, and its value in the column of the later version."""
    parts = same_column(question, state)
    if parts is None:  # Rows from before the column have NULL; those of a dropped one what files hold.
        parts, shape = question.columns[0].parts, later(question).shape
        state = replace(
            state, shape=replace(shape, fields=tuple(f for f in shape.fields if f.name == parts[0]))
        )
    rows = state.rows()
    whole = rows[parts[0]].combine_chunks()
    values = (pc.struct_field(whole, list(parts[1:])) if parts[1:] else whole).cast(type_)
    content = {path_of(path): live.content for path, live in state.files.items()}
    numbers = pa.array([content[file] for file in rows["file"].to_pylist()], pa.int64())
    return pa.table(
        [rows["file"], numbers, rows["position"], values], names=["file", "content", "position", "v"]
    )
