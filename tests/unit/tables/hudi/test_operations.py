"""Rows whose column `_hoodie_operation` says what they do, as Flink writes them where it keeps changes.

What is expected is what Hudi 1.2 on Spark read of tables of the same writes, made by Hudi's Java client.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tailbit
from support.drive import Drive
from support.hudi_builder import META, avro_fields
from support.hudi_logs import avro_block
from support.hudi_made import SCHEMA, Blocks, Made, rows

OPERATION = "_hoodie_operation"
BY_TIME, BY_COMMIT = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"


def changes(*changed: tuple[int, int, str | None, str], mark: bool | None = None) -> Blocks:
    """Return a maker of one block of rows of key, ordering value, operation and city.

    `mark`: what `_hoodie_is_deleted` holds; None: there is no such column.
    """
    fields = [{"name": name, "type": ["null", "string"]} for name in (META[2], OPERATION)]
    fields += avro_fields(SCHEMA, "t")
    found = [rows([key], ts, city).to_pylist()[0] | {OPERATION: done} for key, ts, done, city in changed]
    if mark is not None:
        fields.append({"name": "_hoodie_is_deleted", "type": "boolean"})
        found = [row | {"_hoodie_is_deleted": mark} for row in found]
    return lambda instant: [avro_block(instant, {"type": "record", "name": "r", "fields": fields}, found)]


@pytest.mark.supports_hudi(
    "MERGE_ON_READ", "deletions by the column `_hoodie_operation`, as of Flink", "exact"
)
@pytest.mark.parametrize("version", [6, 8, 9])
def test_rows_of_deletions_and_rows_before_updates_delete_by_their_ordering_values(
    version: int, tmp_path: Path
) -> None:
    made = Made(tmp_path, version)
    made.write(
        changes((0, 6, "U", "a"), (1, 6, "-U", "a"), (2, 6, "D", "a"), (3, 6, "I", "a"), (7, 6, None, "a"))
    )
    assert made.cities() == {0: "a", 3: "a", 4: "Oslo", 7: "a"}
    made.write(changes((2, 4, "I", "b"), (3, 4, "D", "b"), (4, 4, "U", "b")))
    assert made.cities() == {0: "a", 3: "a", 4: "Oslo", 7: "a"}
    made.write(changes((1, 6, "U", "c"), (3, 6, "D", "c"), (4, 6, "-U", "c")))
    assert made.cities() == {0: "a", 1: "c", 7: "a"}


def test_by_commit_time_the_last_operation_counts(tmp_path: Path) -> None:
    made = Made(tmp_path, **{"hoodie.record.merge.mode": BY_COMMIT})
    made.write(changes((0, 6, "D", "a"), (1, 6, "D", "a"), (2, 6, "-U", "a"), (2, 1, "U", "b")))
    made.write(changes((1, 1, "I", "c")))
    assert made.cities() == {1: "c", 2: "b", 3: "Oslo", 4: "Oslo"}


@pytest.mark.parametrize(("mark", "left"), [(False, {0}), (True, set())])
def test_either_of_both_columns_deletes(mark: bool, left: set[int], tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.write(changes((0, 6, "U", "a"), (1, 6, "D", "a"), mark=mark))
    assert {0, 1} & {*made.cities()} == left


def test_an_index_that_follows_hides_the_rows_that_operations_delete(tmp_path: Path) -> None:
    made = Made(tmp_path)
    drive = Drive(made.path, tmp_path / "index", ["key", "city"])
    for block in (changes((0, 6, "U", "a"), (1, 6, "D", "a")), changes((1, 7, "I", "b"), (0, 7, "-U", "a"))):
        drive.drain()
        made.write(block)
        for _ in range(2):
            opened = tailbit.open(made.path, tmp_path / "index")
            assert opened.where().facets("city") == tailbit.open(made.path).where().facets("city")
            drive.drain()
    assert opened.where("city = 'b'").count() == 1
    assert opened.where("city = 'b'").files_scanned == 0
    assert opened.verify().sound
