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
    import json

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
