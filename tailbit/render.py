"""What the command line shows: tables, progress, rows in a format. rich draws; nothing here computes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tailbit.errors import StorageError


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


def write_rows(rows: pa.Table, form: str, output: str | None) -> None:
    """Rows as table, JSON lines, CSV or Parquet, to a file or the terminal.

    Raises:
        StorageError: the file cannot be written.
    """
    try:
        if form == "parquet":
            import pyarrow.parquet as pq

            pq.write_table(rows, output)
            return
        with contextlib.ExitStack() as stack:
            out = sys.stdout if output is None else stack.enter_context(open(output, "w", encoding="utf-8"))
            _write_text(rows, form, out)
    except (OSError, pa.ArrowInvalid) as refused:
        raise StorageError(path=output or "standard output", reason=str(refused)) from refused


def _write_text(rows: pa.Table, form: str, out: Any) -> None:
    if form == "csv":
        import csv

        writer = csv.writer(out)
        writer.writerow(rows.column_names)
        for batch in rows.to_batches(max_chunksize=10_000):
            columns = [_texts(c) for c in batch.columns]
            writer.writerows(zip(*columns, strict=True))
    elif form == "json":
        import json

        for batch in rows.to_batches(max_chunksize=10_000):
            for row in batch.to_pylist():
                out.write(json.dumps(row, default=_json_value, ensure_ascii=False) + "\n")
    elif out is sys.stdout:
        print_table(rows.column_names, [list(r.values()) for r in rows.to_pylist()])
        sys.stderr.write(f"{rows.num_rows} rows\n")
    else:
        for row in ([*rows.column_names], *[list(r.values()) for r in rows.to_pylist()]):
            out.write("\t".join(str(v) for v in row) + "\n")


def _json_value(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else str(value)


def _texts(column: pa.Array) -> list[Any]:
    return ["" if v is None else v.hex() if isinstance(v, bytes) else v for v in column.to_pylist()]


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
            value = "  ".join(f"{k} {v}" for k, v in value.items())
        sys.stdout.write(f"{key.replace('_', ' '):<18}{'-' if value is None else value}\n")
