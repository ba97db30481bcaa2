"""Rendering for the command line: tables, progress, rows in a format. rich draws; nothing here computes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from itertools import chain
from pathlib import PurePath
from typing import Any, BinaryIO, NoReturn, TextIO

import pyarrow as pa

from tailbit.base.errors import StorageError, UsageError
from tailbit.base.wording import counted, visible
from tailbit.outputs.display import cell, csv_column, plain_rows
from tailbit.outputs.frames import BATCH_ROWS
from tailbit.tables.arrow import no_rows


def print_table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a table on a terminal; tab-separated lines elsewhere."""
    if not sys.stdout.isatty():
        for row in (header, *rows):
            sys.stdout.write(_line(row))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(*header)
    for row in rows:
        table.add_row(*[visible(str(v)) for v in row])
    Console().print(table)


def _line(row: Iterable[Any]) -> str:
    """Return a row between tabs; characters that would break the line are escaped, as on a terminal."""
    return "\t".join(visible(str(v)) for v in row) + "\n"


def write_rows(schema: pa.Schema, tables: Iterable[pa.Table], form: str, output: str | None) -> None:
    """Write rows as table, JSON lines, CSV, Parquet or Arrow IPC, to a file or the terminal, as they come.

    A file appears under its name once it is whole. Values are text as `plain_values` says. In CSV, NULL is an
    empty field, an empty string is "", a float that is no number is nan, inf or -inf, and a struct, array or
    map is JSON. Arrow IPC is in the file format in a file, in the streaming format elsewhere.

    Raises:
        StorageError: the file cannot be written.
        UsageError: a map holds one key twice, which only Parquet and Arrow can show.
    """
    try:
        if output is None:
            _write(schema, tables, form, sys.stdout.buffer)
            return
        with finished(output) as path, open(path, "wb") as out:
            _write(schema, tables, form, out)
    except BrokenPipeError:
        raise
    except (OSError, pa.ArrowInvalid) as refused:
        raise StorageError(path=output or "standard output", reason=str(refused)) from refused


@contextlib.contextmanager
def finished(output: str) -> Iterator[str]:
    """Yield a path to write to; it is renamed to `output` after success.

    A device or pipe is written directly.
    """
    if not output or os.path.isdir(output) or not os.path.isdir(os.path.dirname(output) or "."):
        reason = "it is no file" if not output or os.path.isdir(output) else "its folder does not exist"
        raise UsageError(reason=f"{output!r} cannot be written: {reason}", hint="Give the path of a file.")
    if os.path.exists(output) and not os.path.isfile(output):
        yield output
        return
    unfinished = f"{output}.{os.getpid()}.unfinished"
    here = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _terminated) if here else None
    try:
        yield unfinished
        os.replace(unfinished, output)
    finally:
        if here:
            signal.signal(signal.SIGTERM, before)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)


def _terminated(number: int, frame: object) -> NoReturn:
    """Raise on a signal, so that no unfinished file stays."""
    sys.exit(128 + number)


def _write(schema: pa.Schema, tables: Iterable[pa.Table], form: str, out: BinaryIO) -> None:
    if form == "parquet":
        _write_parquet(schema, tables, out)
    elif form == "arrow":
        _write_arrow(schema, tables, out)
    elif form == "csv":
        _write_csv(schema, tables, out)
    elif form == "json":
        for row in plain_rows(tables):
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
    else:
        _write_table(schema, tables, out)


def _write_parquet(schema: pa.Schema, tables: Iterable[pa.Table], out: BinaryIO) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out, schema) as writer:
        for table in tables:
            writer.write_table(table)


def _write_arrow(schema: pa.Schema, tables: Iterable[pa.Table], out: BinaryIO) -> None:
    """Write Arrow's file format to a file, and its stream format to a pipe, which cannot be sought."""
    new_writer = pa.ipc.new_file if out.seekable() and out is not sys.stdout.buffer else pa.ipc.new_stream
    with new_writer(out, schema) as writer:
        for table in tables:
            writer.write_table(table, max_chunksize=BATCH_ROWS)


def _write_table(schema: pa.Schema, tables: Iterable[pa.Table], out: BinaryIO) -> None:
    count, rows = 0, (list(map(cell, row.values())) for row in plain_rows(tables))
    shown = out is sys.stdout.buffer
    if shown and sys.stdout.isatty():
        listed = list(rows)
        print_table(schema.names, listed)
        count = len(listed)
    else:
        out.write(_line(schema.names).encode())
        for row in rows:
            out.write(_line(row).encode())
            count += 1
    if shown:
        sys.stderr.write(f"{counted(count, 'row')}\n")


def _write_csv(schema: pa.Schema, tables: Iterable[pa.Table], out: BinaryIO) -> None:
    from pyarrow import csv

    for number, table in enumerate(chain([no_rows(schema)], tables)):
        buffer = pa.BufferOutputStream()
        flat = pa.table([csv_column(c) for c in table.columns], names=schema.names)
        csv.write_csv(flat, buffer, csv.WriteOptions(include_header=number == 0))
        out.write(buffer.getvalue().to_pybytes())


@contextlib.contextmanager
def progress_bar(title: str, *, hidden: bool) -> Iterator[Callable[..., None] | None]:
    """Yield a callback (done, total, left) that draws a bar on stderr; None without a terminal.

    `left`: what is left, in words, behind the bar. All of it is one line, which a narrow terminal cuts off.
    """
    if hidden or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn
    from rich.table import Column

    columns = (
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
        BarColumn(bar_width=16),
        TaskProgressColumn(table_column=Column(no_wrap=True)),
        TextColumn("{task.fields[left]}", table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(escape(title), total=None, left="")
        yield lambda done, total, left="": bar.update(task, completed=done, total=total, left=left)


def encoding_text(account: dict[str, Any]) -> str:
    """Return the encoding of a column in words."""
    if account["encoding"] is None:
        return "no postings"
    sparse = f", {account['sparse_keys']:,} of them sparse" if account["encoding"] == "mixed" else ""
    postings = counted(account["keys"], "posting")
    return (
        f"{account['encoding']}, {postings} (of each value in each row space){sparse}, "
        f"{account['bytes_a_row']} bytes a row"
    )


def progress_lines(as_json: bool, bars: Callable[[], Any]) -> Callable[[Any], None]:
    """Return a callback that prints an indexer's progress: a live line on a terminal, else lines.

    A look that finds no batch is printed only on a terminal or as JSON, so that a log has a line per batch.
    `bars`: returns what a terminal shows below the line.
    """
    if as_json:
        return _json_progress
    if not sys.stderr.isatty():
        return _plain_progress
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    line = Text()
    live = Live(console=Console(stderr=True), get_renderable=lambda: Group(line, bars()))
    live.start()

    def show(progress: Any) -> None:
        nonlocal line
        line = Text(_named(progress))
        live.refresh()

    return show


def notice_lines(as_json: bool) -> Callable[[str], None]:
    """Return a callback that prints notices of a running indexer: on stderr, or as JSON on stdout."""

    def tell(line: str) -> None:
        text = json.dumps({"notice": line, "time": now_text()}) if as_json else visible(line)
        write_line(sys.stdout if as_json else sys.stderr, text)

    return tell


def write_line(out: TextIO, line: str) -> None:
    """Write a line of the log of a run; one that cannot be written is lost, since the run must go on."""
    with contextlib.suppress(OSError, ValueError):
        out.write(line + "\n")
        out.flush()


def progress_text(progress: Any) -> str:
    """Return a line with the covered version, the lag and the work of the last batch."""
    done = "building" if progress.covered is None else f"covered v{progress.name_of(progress.covered)}"
    lag = progress.lag
    behind = (
        "up to date"
        if not lag.versions
        else f"{counted(lag.versions, 'version')}, {lag.seconds:.1f} s behind"
    )
    done_now = (
        f"{counted(progress.files, 'file')}, {counted(progress.rows, 'row')} in {progress.batch_ms:.0f} ms"
    )
    work = "" if progress.look or not progress.batch_ms else f" · {done_now}"
    return f"{done} of v{progress.name_of(progress.head)} · {behind}{work}"


def _named(progress: Any) -> str:
    """Return the line of progress behind the name of its table, since a log may be of several tables."""
    return f"{visible(progress.id or PurePath(progress.table).name)}: {progress_text(progress)}"


def now_text() -> str:
    """Return the time of a line of the log, in UTC to the millisecond."""
    return f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z"


def _plain_progress(progress: Any) -> None:
    if not progress.look:
        write_line(sys.stderr, _named(progress))


def _json_progress(progress: Any) -> None:
    record = {
        "table": progress.table,
        "covered_version": None if progress.covered is None else progress.name_of(progress.covered),
        "head": progress.name_of(progress.head),
        "files": progress.files,
        "rows": progress.rows,
        "lag_versions": progress.lag.versions,
        "lag_files": progress.lag.files,
        "lag_bytes": progress.lag.bytes,
        "lag_seconds": round(progress.lag.seconds, 3),
        "batch_ms": round(progress.batch_ms, 1),
        "idle": progress.idle,
        "time": now_text(),
    }
    if progress.id:
        record = {"id": progress.id, **record}
    write_line(sys.stdout, json.dumps(record))
