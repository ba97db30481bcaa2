"""Golden indexes: of every format one that the last release of that format wrote, and what they answer.

`tests/golden/indexes.tar.xz` holds a table with its index per format, `tests/golden/answers.json` what the
values of the rows say. A release writes its own again: a tree of its commit (`WRITERS`), with its packages
below `tailbit` and this module among its tests, on the path of

    python -P -m support.golden write FORMAT FOLDER

`python -m support.golden pack FOLDER` makes both files of the folder that holds all formats.
"""

from __future__ import annotations

import datetime
import json
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa

GOLDEN = Path(__file__).parents[1] / "golden"
ANSWERS = GOLDEN / "answers.json"
INDEXES = GOLDEN / "indexes.tar.xz"
WRITERS = {
    1: "c81dc805",
    2: "3785c9c5",
    3: "6497b45c",
    4: "bcd61146",
    5: "27b521a6",
    6: "45ba33c3",
    7: "c2ebd874",
    8: "bd3351fa",
    9: "4196bc57",
}
"""The commit whose code wrote the index of a format: the last one before the next format."""
UTC = datetime.timezone.utc
ROWS = 400

PLAIN = ("k", "v", "day", "price", "amount", "flag", "moment", "raw")
"""Columns that every format has a bitmap of."""

ARRAYS = 4
DEFINITIONS: dict[int, tuple[str, ...]] = {
    5: (
        "CREATE INDEX by_lower ON t USING bitmap (lower(v))",
        "CREATE INDEX by_both ON t USING bitmap (v, flag)",
        "CREATE INDEX bounds ON t USING column_stats (k, day, lower(v))",
    ),
    7: ("CREATE INDEX by_number ON t USING record_key (n)",),
    8: (
        "CREATE INDEX by_uuid ON t USING record_key (u)",
        "CREATE INDEX by_note ON t USING record_key (note)",
    ),
    9: ("CREATE INDEX by_word ON t USING bloom_filter (word)",),
}
"""Further indexes, by the format that has them first."""

Row = dict[str, Any]


def row(at: int) -> Row:
    tags = [None, [], ["a", None], ["b", "a", "a"], ["b"]][at % 5]
    return {
        "k": None if at % 37 == 0 else (at * 7919) % 1000 - 500,
        "v": [None, "Ä", "b", "B", "c" * 300, "", "x"][at % 7],
        "day": None if at % 11 == 0 else datetime.date(2024, 1, 1) + datetime.timedelta(at % 90 - 30),
        "price": None if at % 13 == 0 else Decimal(at % 50 - 20) / 4,
        "amount": [None, float("nan"), -0.0, 0.0, -1.5, float("inf"), 2.25][at * 3 % 7],
        "flag": [True, False, None][at * 5 % 3],
        "moment": datetime.datetime(2024, 3, 1, tzinfo=UTC) + datetime.timedelta(hours=at % 60, seconds=at),
        "raw": bytes([at % 4, 0, 255]),
        "tags": tags,
        "n": (at * 48271) % 100_003 - 50_000,
        "u": str(UUID(int=(at * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128)),
        "note": f"note {at:05d} of {ROWS}" + "-" * (at % 3 * 150),
        "word": f"word{at * 31 % 997}",
    }


SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("v", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("amount", pa.float64()),
        ("flag", pa.bool_()),
        ("moment", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("n", pa.int64()),
        ("u", pa.string()),
        ("note", pa.string()),
        ("word", pa.string()),
    ]
)
FILES = {"f0.parquet": 150, "f1.parquet": 90, "f2.parquet": 60, "f3.parquet": 70, "f4.parquet": 30}
GONE = "f2.parquet"
HIDDEN = {"f0.parquet": [0, 4, 21, 149], "f3.parquet": [1]}


def visible() -> Iterator[tuple[str, int, Row]]:
    """The rows of the newest version: their file, their place in it, and their values."""
    first = 0
    for file, count in FILES.items():
        for place in range(count):
            if file != GONE and place not in HIDDEN.get(file, ()):
                yield file, place, row(first + place)
        first += count


def write(folder: str, format_: int) -> str:
    """Write the table and its index into a folder, a step for each commit; return the path of the table."""
    from support.delta_builder import DeltaBuilder
    from support.tables import index_of

    table = DeltaBuilder(f"{folder}/format_{format_}").create(
        SCHEMA, features=["deletionVectors"], configuration={"delta.enableDeletionVectors": "true"}
    )
    columns = [*PLAIN, *(["tags"] if format_ >= ARRAYS else [])]
    first = 0
    for file, count in FILES.items():
        data = pa.Table.from_pylist([row(first + place) for place in range(count)], SCHEMA)
        table.commit([table.data_file(data, file, row_group_size=64, compression="zstd")])
        if first == 0:
            drive = index_of(table.path, columns)
            _define(table.path, format_)
        drive.drain()
        first += count
    for file, hidden in HIDDEN.items():
        (vector,) = table.stored_vectors(hidden)
        table.commit(table.hide(file, vector))
        drive.drain()
    table.commit([table.remove(GONE)])
    drive.drain()
    return table.path


def _define(path: str, format_: int) -> None:
    statements = [s for since, some in DEFINITIONS.items() if since <= format_ for s in some]
    if statements:
        import tailbit

        for statement in statements:
            tailbit.sql(statement.replace(" t ", f" delta.`{path}` ", 1))


def _is(name: str, value: Any) -> Callable[[Row], bool]:
    return lambda row: row[name] == value


def _order(value: float) -> tuple[bool, float]:
    return value != value, value


def _from(name: str, low: Any) -> Callable[[Row], bool]:
    return lambda row: row[name] is not None and row[name] >= low


DAY = datetime.date(2024, 2, 20)
NUMBER, TEXT = row(170)["n"], row(170)["u"]
CONDITIONS: dict[str, tuple[int, Callable[[Row], bool]]] = {
    "k = -120": (1, _is("k", -120)),
    "k = 307": (1, _is("k", 307)),
    "k = 12345": (1, lambda row: False),
    "k IS NULL": (1, _is("k", None)),
    "k >= -20 AND k < 15": (1, lambda row: row["k"] is not None and -20 <= row["k"] < 15),
    "k > 490": (1, lambda row: row["k"] is not None and row["k"] > 490),
    "v = 'Ä'": (1, _is("v", "Ä")),
    "v = ''": (1, _is("v", "")),
    f"v = '{'c' * 300}' AND flag = TRUE": (1, lambda row: row["v"] == "c" * 300 and row["flag"] is True),
    "v IS NULL AND k > 0": (1, lambda row: row["v"] is None and (row["k"] or 0) > 0),
    "v >= 'B' AND v <= 'b' AND k < -300": (
        1,
        lambda row: row["v"] in ("B", "b") and row["k"] is not None and row["k"] < -300,
    ),
    "day >= DATE '2024-02-20'": (1, _from("day", DAY)),
    "day = DATE '2023-12-31'": (1, _is("day", datetime.date(2023, 12, 31))),
    "price = -1.25": (1, _is("price", Decimal("-1.25"))),
    "price > 6.5 AND flag = FALSE": (
        1,
        lambda row: row["price"] is not None and row["price"] > Decimal("6.5") and row["flag"] is False,
    ),
    "amount = 0.0 AND k > 300": (1, lambda row: row["amount"] == 0 and (row["k"] or 0) > 300),
    "amount > 2.25 AND k > 400": (
        1,
        lambda row: (
            row["amount"] is not None and _order(row["amount"]) > (False, 2.25) and (row["k"] or 0) > 400
        ),
    ),
    "moment >= TIMESTAMP '2024-03-03 10:00:00Z' AND k > 0": (
        1,
        lambda row: row["moment"] >= datetime.datetime(2024, 3, 3, 10, tzinfo=UTC) and (row["k"] or 0) > 0,
    ),
    "raw = X'0300FF' AND k < -400": (
        1,
        lambda row: row["raw"] == b"\x03\x00\xff" and row["k"] is not None and row["k"] < -400,
    ),
    "array_contains(tags, 'a') AND k > 450": (
        ARRAYS,
        lambda row: "a" in (row["tags"] or ()) and (row["k"] or 0) > 450,
    ),
    "lower(v) = 'b' AND k > 350": (5, lambda row: row["v"] in ("b", "B") and (row["k"] or 0) > 350),
    f"n = {NUMBER}": (7, _is("n", NUMBER)),
    "n >= 49000": (7, _from("n", 49000)),
    f"u = '{TEXT}'": (8, _is("u", TEXT)),
    "u < '0a'": (8, lambda row: row["u"] < "0a"),
    f"note = '{row(170)['note']}'": (8, _is("note", row(170)["note"])),
    f"word = '{row(170)['word']}'": (9, _is("word", row(170)["word"])),
}
"""SQL, the first format whose index serves it, and what it says of a row."""

FACETS: dict[tuple[str, str], int] = {
    ("v", "TRUE"): 1,
    ("flag", "TRUE"): 1,
    ("flag", "k > 0"): 1,
    ("day", "day >= DATE '2024-02-20'"): 1,
    ("lower(v)", "k IS NULL"): 5,
}
"""A column, or a term of an index, a condition, and the first format whose index serves both."""


FURTHER: dict[str, Callable[[Row], bool]] = {
    "TRUE": lambda row: True,
    "k > 0": lambda row: (row["k"] or 0) > 0,
}
"""Conditions of facets alone."""


def _facet(term: str, row: Row) -> Any:
    if term == "lower(v)":
        return None if row["v"] is None else row["v"].lower()
    return str(row[term]) if isinstance(row[term], datetime.date) else row[term]


def answers() -> dict[str, list[dict[str, Any]]]:
    """What is asked of the indexes, the first format that serves it, and the answers."""
    rows = list(visible())
    positions, facets = [], []
    for condition, (since, holds) in CONDITIONS.items():
        found: dict[str, list[int]] = {}
        for file, place, values in rows:
            if holds(values):
                found.setdefault(file, []).append(place)
        positions.append({"where": condition, "since": since, "rows": found})
    for (term, condition), since in FACETS.items():
        holds = FURTHER[condition] if condition in FURTHER else CONDITIONS[condition][1]
        counts = Counter(_facet(term, values) for _, _, values in rows if holds(values))
        pairs = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
        facets.append({"facets": term, "where": condition, "since": since, "counts": pairs})
    return {"positions": positions, "facets": facets}


def unpack(format_: int, folder: str | Path) -> str:
    with tarfile.open(INDEXES) as files:
        mine = [member for member in files if member.name.split("/")[0] == f"format_{format_}"]
        files.extractall(folder, mine, filter="data")
    return str(Path(folder, f"format_{format_}"))


def pack(folder: str) -> None:
    """Pack the tables of a folder, and write the answers."""
    with tarfile.open(INDEXES, "w:xz", preset=9) as files:
        for format_ in WRITERS:
            files.add(f"{folder}/format_{format_}", f"format_{format_}")
    ANSWERS.write_text(json.dumps(answers(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[3], int(sys.argv[2]))
    else:
        pack(sys.argv[2])
