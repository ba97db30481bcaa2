"""What the command line shows: tables, progress, rows in a format. rich draws; nothing here computes."""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, BinaryIO

import pyarrow as pa

from tailbit.errors import StorageError, UsageError


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table for a terminal; tab-separated lines where the output is no terminal."""
    if not sys.stdout.isatty():
        for row in (header, *rows):
            sys.stdout.write("\t".join(str(v) for v in row) + "\n")
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*header)
    for row in rows:
        table.add_row(*[str(v) for v in row])
    Console().print(table)


def write_rows(schema: pa.Schema, tables: Iterable[pa.Table], form: str, output: str | None) -> None:
    """Rows as table, JSON lines, CSV or Parquet, to a file or the terminal, as they come.

    A file appears under its name once it is whole. In text, a date, time or decimal is written in full, bytes
    as hex digits, a float that is no number as "NaN" or "Infinity"; in CSV, NULL is an empty field and an
    empty string is "".

    Raises:
        StorageError: the file cannot be written.
    """
    try:
        if output is None:
            _write_text(schema, tables, form, sys.stdout.buffer)
            return
        with _finished(output) as path:
            if form == "parquet":
                _write_parquet(schema, tables, path)
                return
            with open(path, "wb") as out:
                _write_text(schema, tables, form, out)
    except BrokenPipeError:
        raise
    except (OSError, pa.ArrowInvalid) as refused:
        raise StorageError(path=output or "standard output", reason=str(refused)) from refused


@contextlib.contextmanager
def _finished(output: str) -> Iterator[str]:
    """A path to write to that becomes `output` when all went well; a device or pipe is written as it is."""
    if os.path.exists(output) and not os.path.isfile(output):
        yield output
        return
    unfinished = f"{output}.{os.getpid()}.unfinished"
    try:
        yield unfinished
        os.replace(unfinished, output)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)


def _write_parquet(schema: pa.Schema, tables: Iterable[pa.Table], path: str) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(path, schema) as writer:
        for table in tables:
            writer.write_table(table)


def _write_text(schema: pa.Schema, tables: Iterable[pa.Table], form: str, out: BinaryIO) -> None:
    if form == "csv":
        _write_csv(schema, tables, out)
    elif form == "json":
        for row in _plain_rows(tables):
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    elif out is sys.stdout.buffer:
        rows = [[cell(v) for v in row.values()] for row in _plain_rows(tables)]
        print_table(schema.names, rows)
        sys.stderr.write(f"{len(rows)} rows\n")
    else:
        for cells in (schema.names, *(map(cell, row.values()) for row in _plain_rows(tables))):
            out.write("\t".join(cells).encode() + b"\n")


def _write_csv(schema: pa.Schema, tables: Iterable[pa.Table], out: BinaryIO) -> None:
    from pyarrow import csv

    for number, table in enumerate(chain([schema.empty_table()], tables)):
        buffer = pa.BufferOutputStream()
        flat = pa.table([_flat(c) for c in table.columns], names=schema.names)
        csv.write_csv(flat, buffer, csv.WriteOptions(include_header=number == 0))
        out.write(buffer.getvalue().to_pybytes())


def _flat(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column as CSV can hold it: bytes as hex digits, nested values as JSON."""
    if not (pa.types.is_nested(column.type) or pa.types.is_binary(column.type)):
        return column
    spelled = _in_python(column.cast(_spelled(column.type)))
    texts = [None if v is None else _nested_text(json_value(v)) for v in spelled]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _nested_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _plain_rows(tables: Iterable[pa.Table]) -> Iterator[dict[str, Any]]:
    """Rows of JSON-able values."""
    for table in tables:
        spelled = table.cast(pa.schema([f.with_type(_spelled(f.type)) for f in table.schema]))
        spelled = pa.table([_utf8(c) for c in spelled.columns], schema=spelled.schema)
        for batch in spelled.to_batches(max_chunksize=10_000):
            for row in _in_python(batch):
                yield {name: json_value(value) for name, value in row.items()}


def _in_python(values: pa.RecordBatch | pa.ChunkedArray) -> list[Any]:
    try:
        found: list[Any] = values.to_pylist(maps_as_pydicts="strict")
    except UnicodeDecodeError as wrong:
        reason = "a nested column holds text that is no UTF-8"
        raise UsageError(reason=reason, hint="Read it with --format parquet, or leave it out.") from wrong
    return found


def _utf8(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of text with bytes that are no UTF-8 replaced; others as they are."""
    if not pa.types.is_string(column.type):
        return column
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        data = column.cast(pa.binary()).to_pylist()
        texts = [None if value is None else value.decode("utf-8", "replace") for value in data]
        return pa.chunked_array([pa.array(texts, pa.string())])
    return column


def _spelled(type_: pa.DataType) -> pa.DataType:
    """A type with dates, times and decimals as text, at any depth: Python's calendar ends before Arrow's."""
    if pa.types.is_temporal(type_) or pa.types.is_decimal(type_):
        return pa.string()
    if pa.types.is_struct(type_):
        return pa.struct([f.with_type(_spelled(f.type)) for f in type_])
    if pa.types.is_map(type_):
        return pa.map_(_spelled(type_.key_type), _spelled(type_.item_type))
    if pa.types.is_list(type_):
        return pa.list_(type_.value_field.with_type(_spelled(type_.value_type)))
    return type_


def json_value(value: Any) -> Any:
    """A value as JSON can hold it: bytes as hex digits, dates, times and decimals as text, NaN by name."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, dict):
        return {cell(json_value(k)): json_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(v) for v in value]
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ", "microseconds").replace("+00:00", "Z")
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def cell(value: Any) -> str:
    """A JSON-able value as one cell of a table."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (dict, list)) else str(value)


@contextlib.contextmanager
def progress_bar(title: str, *, hidden: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """A callback (done, total) that draws a bar on stderr; None where there is no terminal."""
    if hidden or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def print_status(found: dict[str, Any]) -> None:
    """The status of an index, one line a fact."""
    for key, value in found.items():
        if isinstance(value, list):
            value = ", ".join(str(v) for v in value)
        elif isinstance(value, dict):
            value = "  ".join(f"{k} {v}" for k, v in value.items()) or "-"
        sys.stdout.write(f"{key.replace('_', ' '):<18}{'-' if value is None else value}\n")


def progress_lines(as_json: bool) -> Callable[[Any], None]:
    """A callback that tells the progress of a running indexer: a live line on a terminal, lines elsewhere.

    An idle look is told only on a terminal or as JSON, so that a log holds a line per batch.
    """
    if as_json:
        return _json_progress
    if not sys.stderr.isatty():
        return _plain_progress
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    live = Live(console=Console(stderr=True), refresh_per_second=4, transient=False)
    live.start()

    def show(progress: Any) -> None:
        live.update(Text(_progress_text(progress)))

    return show


def _progress_text(progress: Any) -> str:
    done = "building" if progress.covered is None else f"covered v{progress.covered}"
    lag = progress.lag
    behind = "up to date" if not lag.versions else f"{lag.versions} versions, {lag.seconds:.1f} s behind"
    work = (
        ""
        if progress.idle
        else f" · {progress.files} files, {progress.rows} rows in {progress.batch_ms:.0f} ms"
    )
    return f"{done} of v{progress.head} · {behind}{work}"


def _plain_progress(progress: Any) -> None:
    if not progress.idle:
        sys.stderr.write(_progress_text(progress) + "\n")
        sys.stderr.flush()


def _json_progress(progress: Any) -> None:
    found = {
        "covered_version": progress.covered,
        "head": progress.head,
        "files": progress.files,
        "rows": progress.rows,
        "lag_versions": progress.lag.versions,
        "lag_files": progress.lag.files,
        "lag_bytes": progress.lag.bytes,
        "lag_seconds": round(progress.lag.seconds, 3),
        "batch_ms": round(progress.batch_ms, 1),
        "idle": progress.idle,
    }
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
