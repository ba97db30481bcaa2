"""Each kind of definition under each operation: answers stay right, the index stays sound."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import tailbit
from support.drive import Drive
from tailbit.api import IndexedTable

DEFINITIONS = {
    "bitmap of a column": (("city",), "bitmap", None),
    "bitmap of an expression": (("lower(city)",), "bitmap", None),
    "bitmap of an expression that raises": (("CAST(city AS INT)",), "bitmap", None),
    "bitmap of several terms": (("lower(city)", "k"), "bitmap", None),
    "statistics of columns": (("*",), "column_stats", None),
    "statistics of expressions": (("lower(city)", "k + 1"), "column_stats", None),
    "part": (("lower(city)",), "bitmap", "part = 'a'"),
}
QUESTIONS = (
    ("lower(city) = 'rome'", lambda row: (row["city"] or "").lower() == "rome"),
    ("lower(city) = 'rome' AND k > 3", lambda row: (row["city"] or "").lower() == "rome" and row["k"] > 3),
    ("k + 1 > 10 AND k < 15", lambda row: 10 <= row["k"] < 15),
    ("CAST(city AS INT) = 12 AND city = '12'", lambda row: row["city"] == "12"),
    ("city IS NULL AND part = 'a'", lambda row: row["city"] is None and row["part"] == "a"),
)
CITIES = ("Rome", "rome", "Paris", "12", None)


def rows(first: int, part: str) -> pa.Table:
    numbers = range(first, first + 8)
    columns = {"city": [CITIES[n % 5] for n in numbers], "k": pa.array(numbers, pa.int32())}
    return pa.table({**columns, "part": [part] * len(numbers)})


class Indexed:
    """A table with two indexes, and the stream that keeps them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.drive = Drive(path, f"{path}/_tailbit")

    @property
    def table(self) -> IndexedTable:
        return tailbit.open(self.path)

    def append(self, first: int) -> None:
        write_deltalake(self.path, rows(first, "ab"[first % 16 // 8]), mode="append")

    def repeat(self) -> None:
        self.append(40)
        self.drive.drain()
        self.drive.replay()

    def rebuild(self) -> None:
        self.append(40)
        self.table.rebuild_index("i")

    def repair(self) -> None:
        self.append(40)
        self.table.repair()

    def repair_of_damage(self) -> None:
        for file in Path(self.path, "_tailbit").glob("*/kind=bitmap_index/*.parquet"):
            file.write_bytes(b"")
        for file in Path(self.path, "_tailbit").rglob("*column_stats*/*.parquet"):
            file.write_bytes(b"")
        self.table.repair()

    def merge(self) -> None:
        for first in (40, 48, 56, 64):
            self.append(first)
            self.drive.drain()
        self.table.compact()

    def vacuum(self) -> None:
        self.merge()
        self.table.vacuum(0)

    def alter(self) -> None:
        self.table.alter(add=["city"], drop=["part"])

    def delete(self) -> None:
        DeltaTable(self.path).delete("k % 3 = 0")
        self.drive.drain()


OPERATIONS: dict[str, Callable[[Indexed], None]] = {
    "rebuild": Indexed.rebuild,
    "repair": Indexed.repair,
    "repair of damage": Indexed.repair_of_damage,
    "merge": Indexed.merge,
    "vacuum": Indexed.vacuum,
    "alter": Indexed.alter,
    "repeat": Indexed.repeat,
    "delete": Indexed.delete,
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """The path of a table with an index of a kind, made once."""
    folder, paths = tmp_path_factory.mktemp("kinds"), {}

    def path_of(kind: str) -> str:
        if kind not in paths:
            paths[kind] = str(folder / str(len(paths)))
            for first in (0, 8, 16):
                write_deltalake(
                    paths[kind], rows(first, "ab"[first % 16 // 8]), mode="append", partition_by=["part"]
                )
            on, name, only = DEFINITIONS[kind]
            table = tailbit.open(paths[kind])
            table.create_index("by_part", "part")
            table.create_index("i", on, name, only)
        return paths[kind]

    return path_of


@pytest.mark.by_thirds
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", DEFINITIONS)
def test_a_kind_answers_rightly_and_is_sound_after_an_operation(
    built: Callable[[str], str], tmp_path: Path, kind: str, operation: str
) -> None:
    path = str(shutil.copytree(built(kind), tmp_path / "t"))
    OPERATIONS[operation](Indexed(path))
    for moment in ("as it was left", "caught up"):
        if moment == "caught up":
            Drive(path, f"{path}/_tailbit").drain()
        table = tailbit.open(path)
        held = table.where().read().to_pylist()
        for condition, is_true in QUESTIONS:
            wanted = sorted(row["k"] for row in held if is_true(row))
            answer = table.where(condition)
            assert answer.count() == len(wanted), (moment, condition)
            assert sorted(answer.read(["k"])["k"].to_pylist()) == wanted, (moment, condition)
    assert tailbit.open(path).verify(derive=2).problems == []
    assert "i" in [index.name for index in tailbit.open(path).indexes()]
