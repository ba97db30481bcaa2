"""Delta tables whose logs are odd: what they say of files is wrong, contradicts itself, or cannot be read.

Each case is a table of two files, `a` with three rows and `b` with one, and what must be read of it: the rows
that the data files have, or a refusal by name. Spark 4.2 and deltalake are asked about the same tables by
`integration/test_odd_logs.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Action = dict[str, Any]

EVERY_ROW = {
    "true": [1, 2, 3, 4],
    "id > 0": [1, 2, 3, 4],
    "id = 2": [2],
    "p = 'x'": [1, 2, 3],
    "p = 'x' AND id > 1": [2, 3],
    "s IS NULL": [3],
    "s IS NOT NULL": [1, 2, 4],
    "id IS NULL": [],
    "s = 'b'": [2],
    "s LIKE 'b%'": [2],
    "f < 100": [1, 2, 3, 4],
    "d >= DATE '2020-01-03'": [2, 3, 4],
    "p IS NULL": [],
}
"""Per condition the ids that it selects of the rows that the data files have."""


def column(name: str, type_: Any, **metadata: Any) -> Action:
    """A field of the schema."""
    return {"name": name, "type": type_, "nullable": True, "metadata": metadata}


@dataclass
class OddTable:
    """A table before it is written: what its first commit will say, for a case to change."""

    path: Path
    protocol: Action = field(default_factory=lambda: {"minReaderVersion": 1, "minWriterVersion": 2})
    metadata: Action = field(default_factory=dict)
    fields: list[Action] = field(default_factory=list)
    adds: list[Action] = field(default_factory=list)
    commits: dict[int, bytes] = field(default_factory=dict)
    """Bytes of commits that are written as they are."""

    def __post_init__(self) -> None:
        types = {"id": "long", "s": "string", "d": "date", "f": "double", "p": "string"}
        self.fields = [column(name, type_) for name, type_ in types.items()]
        self.metadata = {
            "id": "odd",
            "format": {"provider": "parquet", "options": {}},
            "partitionColumns": ["p"],
            "configuration": {},
            "createdTime": 1,
        }
        (self.path / "_delta_log").mkdir(parents=True)
        self.adds = [self.file("a", [1, 2, 3], ["a", "b", None], "x"), self.file("b", [4], ["d"], "y")]

    @property
    def first(self) -> Action:
        """The add action of the file of three rows."""
        return self.adds[0]

    @property
    def stats(self) -> Action:
        """The statistics of the file of three rows."""
        found: Action = self.first["stats"]
        return found

    def file(self, name: str, ids: list[int], texts: list[str | None], part: str) -> Action:
        """Write a data file; its add action, the statistics as an object."""
        days = [f"2020-01-{i + 1:02}" for i in ids]
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "s": pa.array(texts, pa.string()),
                "d": pa.array(days).cast(pa.date32()),
                "f": pa.array(map(float, ids), pa.float64()),
            }
        )
        there = sorted(filter(None, texts))
        return {
            "path": f"{name}.parquet",
            "partitionValues": {"p": part},
            "size": self.rewrite(name, table),
            "modificationTime": 1,
            "dataChange": True,
            "stats": {
                "numRecords": len(ids),
                "minValues": {"id": ids[0], "s": there[0], "d": days[0], "f": float(ids[0])},
                "maxValues": {"id": ids[-1], "s": there[-1], "d": days[-1], "f": float(ids[-1])},
                "nullCount": {"id": 0, "s": texts.count(None), "d": 0, "f": 0},
            },
        }

    def rewrite(self, name: str, table: pa.Table) -> int:
        """Write a data file; its size."""
        target = self.path / f"{name}.parquet"
        pq.write_table(table, target)
        return target.stat().st_size

    def lines(self) -> list[Action]:
        """The actions of the first commit."""
        text = json.dumps({"type": "struct", "fields": self.fields})
        metadata = {"schemaString": text, **self.metadata}
        adds = [dict(add) for add in self.adds]
        for add in adds:
            if isinstance(add.get("stats"), dict):
                add["stats"] = json.dumps(add["stats"])
        return [{"protocol": self.protocol}, {"metaData": metadata}, *({"add": add} for add in adds)]

    def third(self) -> bytes:
        """A commit that adds another file, as bytes: a row of id 5 in the partition x."""
        add = self.file("c", [5], ["e"], "x")
        return json.dumps({"add": {**add, "stats": json.dumps(add["stats"])}}).encode()

    def write(self) -> str:
        """Write the log; the path of the table."""
        first = "\n".join(json.dumps(line) for line in self.lines()).encode()
        for version, data in {0: first, **self.commits}.items():
            (self.path / "_delta_log" / f"{version:020}.json").write_bytes(data)
        return str(self.path)


@dataclass(frozen=True)
class OddLog:
    """One case. `rows`: per condition the ids, None where the table is refused. `spark`: what Spark says.

    `spark` is "same", "refuses", or "differs": then the case says in `why` what Spark does instead.
    """

    name: str
    change: Callable[[OddTable], object]
    rows: dict[str, list[int]] | None = field(default_factory=lambda: EVERY_ROW)
    spark: str = "same"
    why: str = ""

    def write(self, path: Path) -> str:
        table = OddTable(path)
        self.change(table)
        return table.write()


def _stats(**values: Any) -> Callable[[OddTable], object]:
    return lambda table: table.stats.update(values)


def _only(**values: Any) -> Callable[[OddTable], object]:
    return lambda table: table.first.update(stats=values)


def _ends(name: str, low: Any, high: Any) -> Callable[[OddTable], object]:
    def change(table: OddTable) -> None:
        table.stats["minValues"][name], table.stats["maxValues"][name] = low, high

    return change


def _add(**values: Any) -> Callable[[OddTable], object]:
    return lambda table: table.first.update(values)


def _without(name: str) -> Callable[[OddTable], object]:
    return lambda table: table.first.pop(name)


PRUNES = "its statistics of other columns contradict the count, and Spark prunes by both"

WRONG_COUNTS = [
    *(OddLog(f"numRecords {n} alone", _only(numRecords=n)) for n in (0, 1, 2, 4, 99, 10**18, -1, 10**30)),
    *(OddLog(f"numRecords {n!r}", _stats(numRecords=n)) for n in ("3", 3.0, 2.5, True, [3], None, 99, 4)),
    *(
        OddLog(f"numRecords {n} beside others", _stats(numRecords=n), spark="differs", why=PRUNES)
        for n in (0, 1)
    ),
    OddLog("numRecords -1 beside others", _stats(numRecords=-1), spark="differs", why=PRUNES),
    OddLog("no rows, no NULLs", _only(numRecords=0, nullCount={"id": 0}), spark="differs", why=PRUNES),
    OddLog("two counts", lambda t: t.first.update(stats='{"numRecords":3,"numRecords":5}')),
    OddLog("not tight", _stats(tightBounds=False, numRecords=99)),
]

CONTRADICT = "Spark prunes by statistics that contradict themselves"

ODD_STATISTICS = [
    *(
        OddLog(f"statistics {text[:12]!r}", _add(stats=text))
        for text in (
            *('{"numRecords": 3, "minV', "[1,2]", "3", '"abc"', "null", "", " ", "hello", "{'numRecords':3}"),
            *('{"numRecords":3} trailing', '{"numRecords":3,}', "{", '{"numRecords":'),
            '{"numRecords":3,"minValues":{"f":NaN},"maxValues":{"f":NaN}}',
        )
    ),
    OddLog("statistics null", _add(stats=None)),
    OddLog("statistics a list", _add(stats=["x"])),
    OddLog("statistics a number", _add(stats=3)),
    OddLog("minima a list", _stats(minValues=[1], maxValues="x")),
    OddLog("NULLs a list", _stats(nullCount=[1])),
    OddLog("NULLs a text", _stats(nullCount={"id": "0", "s": "1"})),
    OddLog("NULLs negative", _stats(nullCount={"id": -2, "s": -2}), spark="differs", why=CONTRADICT),
    OddLog("NULLs beyond rows", _stats(nullCount={"id": 5, "s": 5}), spark="differs", why=CONTRADICT),
    OddLog("NULLs alone and bounds", _stats(nullCount={"id": 3, "s": 3}), spark="differs", why=CONTRADICT),
    OddLog("NULLs absurd", _stats(nullCount={"id": 10**30, "s": 10**30})),
    OddLog("unknown columns", _stats(minValues={"zz": 1}, nullCount={"zz": 1}, other={})),
    OddLog("ids the wrong way round", _ends("id", 3, 1)),
    OddLog("ids beyond longs", _ends("id", 10**30, 10**31)),
    OddLog("ids far below longs", _ends("id", -(10**31), -(10**30))),
    OddLog("ids as texts", _ends("id", "1", "3")),
    OddLog("ids as truth values", _ends("id", True, False)),
    OddLog("ids as objects", _ends("id", {"a": 1}, {"a": 2})),
    OddLog("ids as fractions", _ends("id", 100.5, 200.5)),
    OddLog("ids of which one end is missing", _ends("id", 1, None)),
    OddLog("days that are none", _ends("d", "nodate", "2020-13-45")),
    OddLog("days of February", _ends("d", "2020-02-30", "2020-02-31")),
    OddLog("days as numbers", _ends("d", 18262, 18265)),
    OddLog(
        "days the wrong way round", _ends("d", "2020-01-04", "2020-01-02"), spark="differs", why=CONTRADICT
    ),
    OddLog("floats as NaN", _ends("f", float("nan"), float("nan")), spark="differs", why=CONTRADICT),
    OddLog("floats without an end", _ends("f", "-Infinity", "Infinity")),
    OddLog("floats the wrong way round", _ends("f", 3.0, 1.0)),
    OddLog("texts as numbers", _ends("s", 1, 2), spark="differs", why="Spark prunes by the digits"),
    OddLog("texts the wrong way round", _ends("s", "z", "a"), spark="differs", why=CONTRADICT),
]


def _later(*commits: bytes | None) -> Callable[[OddTable], object]:
    """Commits after the first; None is one that adds another file."""

    def change(table: OddTable) -> None:
        table.commits |= {n: table.third() if c is None else c for n, c in enumerate(commits, 1)}

    return change


def _bytes(encode: Callable[[list[str]], bytes]) -> Callable[[OddTable], object]:
    return lambda table: table.commits.update({0: encode([json.dumps(line) for line in table.lines()])})


def _size_off(by: int) -> Callable[[OddTable], object]:
    return lambda table: table.first.update(size=table.first["size"] + by)


MARK = b"\xef\xbb\xbf"
WITH_THIRD = EVERY_ROW | {
    "true": [1, 2, 3, 4, 5],
    "id > 0": [1, 2, 3, 4, 5],
    "p = 'x'": [1, 2, 3, 5],
    "p = 'x' AND id > 1": [2, 3, 5],
    "s IS NOT NULL": [1, 2, 4, 5],
    "f < 100": [1, 2, 3, 4, 5],
    "d >= DATE '2020-01-03'": [2, 3, 4, 5],
}
LOSES = "Spark plans a read of as many bytes as the log says, and leaves out what lies beyond"


def _unmarked(table: OddTable) -> None:
    """The texts as bytes that Parquet knows nothing of."""
    rows = pq.read_table(table.path / "a.parquet")
    table.first["size"] = table.rewrite("a", rows.set_column(1, "s", rows["s"].cast(pa.binary())))


ODD_COMMITS = [
    OddLog("0 bytes below others", _later(b"", None), WITH_THIRD),
    OddLog("0 bytes at the head", _later(None, b""), WITH_THIRD),
    OddLog("0 bytes three times", _later(b"", b"", b"", None), WITH_THIRD),
    OddLog("blank lines alone", _later(b"\n\n \n", None), WITH_THIRD),
    OddLog("blanks at the head", _later(None, b"   "), WITH_THIRD),
    OddLog("an empty object", _later(None, b"{}"), WITH_THIRD),
    OddLog("an action that is null", _later(None, b'{"add":null}'), WITH_THIRD),
    OddLog("an action that nobody knows", _later(None, b'{"foo":{"a":1}}'), WITH_THIRD),
    OddLog("a byte order mark alone", _later(None, MARK), WITH_THIRD),
    OddLog("the first commit empty", lambda t: t.commits.update({0: b""}), None, "refuses"),
    OddLog("half a line", _later(None, b'{"add":{"path":"z'), None, "refuses"),
    OddLog("zeros", _later(None, b"\0\0\0"), None, "refuses"),
    OddLog("a byte order mark", _bytes(lambda lines: MARK + "\n".join(lines).encode())),
    OddLog("a byte order mark in each line", _bytes(lambda x: b"\n".join(MARK + t.encode() for t in x))),
    OddLog("lines of Windows", _bytes(lambda lines: "\r\n".join(lines).encode())),
    OddLog("blank lines between", _bytes(lambda lines: b"\n\n  " + "\n \n".join(lines).encode())),
    OddLog("no time", _without("modificationTime")),
    OddLog("a time of null", _add(modificationTime=None)),
    OddLog("a time before 1970", _add(modificationTime=-5)),
    OddLog("a time that is text", _add(modificationTime="now"), None, "refuses"),
    OddLog("a time beyond longs", _add(modificationTime=10**30), None, "refuses"),
    OddLog("no dataChange", _without("dataChange")),
    OddLog("no statistics", _without("stats")),
    OddLog("no size", _without("size"), spark="differs", why=LOSES),
    OddLog("a size of null", _add(size=None), spark="differs", why=LOSES),
    *(OddLog(f"a size of {n}", _add(size=n), spark="differs", why=LOSES) for n in (0, 1, -1)),
    *(OddLog(f"a size {n} off", _size_off(n)) for n in (-1, 1, 9999)),
    OddLog("a size that is text", _add(size="many"), None, "refuses"),
    OddLog("fields that nobody knows", _add(zzz={"a": [1]}, tags=None)),
    OddLog("a file added twice", lambda t: t.adds.append(dict(t.first))),
    OddLog("texts without their mark", _unmarked),
]


def _two_files(which: Callable[[str], bool]) -> dict[str, list[int]]:
    """Every row, but of some conditions that of the second file alone: the first is pruned."""
    return {c: [i for i in ids if i == 4] if which(c) else ids for c, ids in EVERY_ROW.items()}


WRONG_STATISTICS = [
    OddLog("ids all too large", _ends("id", 100, 200), _two_files(lambda c: c == "id = 2")),
    OddLog("days all too late", _ends("d", "2030-01-01", "2030-01-02")),
    OddLog("days all too early", _ends("d", "2010-01-01", "2010-01-02"), _two_files(lambda c: "DATE" in c)),
    OddLog("floats all too large", _ends("f", 200.0, 300.0), _two_files(lambda c: "f <" in c)),
    OddLog("texts all too late", _ends("s", "x", "z"), _two_files(lambda c: "s = " in c or "LIKE" in c)),
    OddLog("no NULLs", _stats(nullCount={"id": 0, "s": 0}), _two_files(lambda c: c == "s IS NULL")),
    OddLog(
        "NULLs alone",
        _only(numRecords=3, nullCount={"id": 3}),
        _two_files(lambda c: "id = " in c or "id >" in c),
    ),
]
"""Statistics that are well formed and wrong: files are pruned by them, by Spark too."""
