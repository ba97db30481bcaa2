"""The page of `tailbit status` for people: a line a fact, in an operator's words, or a line a table."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tailbit.base.wording import counted, size_text, visible
from tailbit.checkpoints.builds import build_text
from tailbit.cli import PROBLEM
from tailbit.cli.options import emit
from tailbit.cli.render import encoding_text, print_table
from tailbit.index.store.place import index_path

_WIDTH = 18
_STATES = {
    "absent": "there is no index: questions read the data",
    "damaged": "the index cannot be read: questions read the data",
    "empty": "nothing is indexed yet",
    "building": "the first snapshot is being indexed",
    "complete": "every file of the covered version is indexed",
    "other history": "the table was replaced since: questions read the data until it is indexed anew",
}
"""The meaning of each state, in words."""

_ALMOST = "the covered version is indexed, but for what is named below"


def print_status(account: Mapping[str, Any]) -> None:
    """Print the status of one index, a line per fact; facts at their usual value are left out."""
    for name, text in _facts(account):
        sys.stdout.write(f"{name:<{_WIDTH}}{visible(text)}\n")


def print_lines(judged: Iterable[tuple[Mapping[str, Any], bool, bool]], as_json: bool) -> int:
    """Print a line, or an object of JSON, for each table; return the exit status: `PROBLEM` if one is late.

    Each account comes with whether the table keeps to its lag, and whether it is paused, and so never late.
    Accounts with an `id` are those of a configuration: their lines say what is wrong, too.
    """
    lines, status = [], 0
    columns: Sequence[str] = ()
    for account, within, paused in judged:
        if not within and not paused:
            status = PROBLEM
        if as_json:
            emit({**account, "within_max_lag": within})
            continue
        cells = {"": "paused" if paused else "ok" if within else "LATE", **_cells(account)}
        columns = [*cells]
        lines.append([*cells.values()])
    if not as_json:
        print_table(columns, lines)
    return status


def _cells(account: Mapping[str, Any]) -> dict[str, str]:
    """Return what a table's line says, by column."""
    lag = _lag(account) if "lag" in account else str(account.get("damage") or account.get("error") or "-")
    sign = account.get("last_sign_of_life")
    indexer = account.get("indexer") or (sign["meaning"] if sign else "none runs")
    build = f" {build_text(account['build'])}" if account.get("build") else ""
    cells = {
        "table": str(account["table"]),
        "state": f"{account.get('state', '-')}{build}",
        "lag": lag,
        "indexer": str(indexer),
    }
    if "id" not in account:
        return cells
    return {"id": account["id"], **cells, "trouble": "; ".join(_troubles(account))}


def _troubles(account: Mapping[str, Any]) -> Iterable[str]:
    """Yield what is wrong with a table of a configuration: the reason of its state, and what it lacks."""
    standing = account.get("application") or account
    if standing.get("reason"):
        yield f"{standing['state']}: {standing['reason']}"
    if account.get("lost_indexes"):
        yield f"lost with an earlier index: {', '.join(account['lost_indexes'])}"
    for text in _read_instead(account):
        yield f"read instead: {text}"


def _facts(account: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    state = str(account["state"])
    yield "table", str(account["table"])
    yield "index", str(account["index"])
    if "columns" in account:
        yield "columns", ", ".join(account["columns"]) or "-"
    for index in account.get("indexes", ()):
        if [index["name"]] != list(index["terms"]):
            yield (
                "index by name",
                f"{index['name']}: {index['kind']} of {', '.join(index['terms'])}, {index['state']}",
            )
    meaning = _ALMOST if state == "complete" and any(_left_out(account)) else _STATES.get(state)
    yield "state", state if meaning is None else f"{state}: {meaning}"
    if "build" in account:
        yield "built", build_text(account["build"])
    for name in ("damage", "remedy"):
        if name in account:
            yield name, str(account[name])
    if "covered_version" in account:
        yield "covered version", _or_dash(account["covered_version"])
    yield "head", _or_dash(account["head"])
    if "lag" in account:
        yield "lag", _lag(account)
    table, index = str(account["table"]), str(account["index"])
    given = [] if index == index_path(table) else ["--index", index]
    start = shlex.join(["tailbit", "run", table, *given])
    yield "indexer", str(account["indexer"] or _without_indexer(account.get("last_sign_of_life"), start))
    if account.get("last_sign_of_life"):
        yield "last sign of life", str(account["last_sign_of_life"]["meaning"])
    yield from _left_out(account)
    yield from _stored(account)
    for name in account:
        if name not in _SHOWN_FIELDS:
            yield name.replace("_", " "), _shown(account[name])


def _without_indexer(sign: Mapping[str, Any] | None, start: str) -> str:
    """Return that no indexer is at work, and what to do; `start`: the command that starts one."""
    nobody = "none gives a sign of life" if sign and sign["state"] == "stale" else "none runs"
    if sign and sign["of_application"]:
        return f"{nobody}: start the application that kept it again, tailbit run --config FILE"
    return f"{nobody}: start one with {start}"


def _lag(account: Mapping[str, Any]) -> str:
    lag = account["lag"]
    if lag is None:
        return "-"
    if not lag["versions"]:
        unseen = f", and not looked at for {lag['seconds']:,.0f} s" if lag["seconds"] else ""
        return f"up to date{unseen}"
    files = f"{counted(lag['files'], 'file')}, {size_text(lag['bytes'])}"
    return f"{counted(lag['versions'], 'version')} behind ({files}), the oldest {lag['seconds']:,.0f} s old"


def _read_instead(account: Mapping[str, Any]) -> list[str]:
    """Return a text for each reason for which questions read data files in place of the index."""
    return [f"{counted(n, 'file')}: {reason}" for reason, n in (account.get("not_covered") or {}).items()]


def _left_out(account: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield the facts about parts that the index lacks, for which answers are right but slower."""
    for column, files in (account.get("files_to_post") or {}).items():
        rows = counted(account["rows_to_post"][column], "row")
        yield "still to index", f"{column} in {counted(files, 'file')}, {rows}: its data is read until then"
    for text in _read_instead(account):
        yield "read instead", text
    if account.get("uncounted_files"):
        files = counted(account["uncounted_files"], "file")
        yield "still to count", f"{files}: counts of all values are made from the index or data until then"
    for damage in account.get("damaged_segments") or ():
        yield "damaged", f"{damage}: the data is read instead; tailbit repair builds it again"


def _stored(account: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield the sizes of the index, and the encoding of the postings by column."""
    sizes = account.get("index_bytes") or {}
    if sizes:
        kinds = ", ".join(f"{_KINDS.get(kind, kind)} {size_text(size)}" for kind, size in sizes.items())
        files = f" in {counted(account['segments'], 'file')} of bitmaps" if "segments" in account else ""
        yield "size", f"{size_text(sum(sizes.values()))}{files} ({kinds})"
    for column, encoding in (account.get("encodings") or {}).items():
        yield "encoding", f"{column}: {encoding_text(encoding)}"


_KINDS = {
    "bitmap_index": "bitmaps",
    "value_counts": "counts of values",
    "hidden_rows": "deleted rows",
    "files": "list of files",
    "ledger": "progress",
}
_SHOWN_FIELDS = frozenset(
    "last_sign_of_life indexes build "
    "table index columns state damage remedy covered_version head lag indexer files_to_post not_covered "
    "rows_to_post uncounted_files damaged_segments index_bytes segments encodings round row_spaces "
    "index_version".split()
)
"""Fields with a line of their own, or of no interest to an operator; --json has all fields."""


def _shown(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {content}" for key, content in value.items()) or "-"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "-"
    return _or_dash(value)


def _or_dash(value: Any) -> str:
    return "-" if value is None else str(value)
