"""Tables that are not what they were: made anew, put back, cloned, converted, their files overwritten."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.delta_builder import DeltaBuilder
from support.judged import JudgedTable
from support.profiles import PROOF, variants


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


QUESTIONS = ("a = 3", "b = 'x'", "NOT (a > 2 AND b = 'y')", "b IS NULL")
FILES = 10_000 if PROOF else 1_000
"""Files of the commit of 10,000 actions; the other actions name transactions of other writers."""

CREATE = "create table {t} (a int, b string) using delta tblproperties ('delta.enableDeletionVectors'='true')"


@pytest.mark.parametrize(
    ("inserts", "running"),
    variants(
        [
            pytest.param(1, True, id="fewer versions-running"),
            pytest.param(4, True, id="more versions-running"),
            pytest.param(4, False, id="more versions-down"),
            pytest.param(1, False, id="fewer versions-down"),
        ],
        2,
    ),
)
@pytest.mark.supports("Histories", "drop and re-create at the same path, more or fewer versions", "exact")
def test_a_table_made_anew_at_the_same_path_is_another_table(
    spark: Any, table_path: str, inserts: int, running: bool
) -> None:
    table = JudgedTable(spark, table_path, ["a", "b"], index=f"{table_path}-index")
    table.sql(CREATE, "insert into {t} values (1, 'x'), (3, null)", "insert into {t} values (3, 'y')")
    shutil.rmtree(table_path)
    table.forget()
    if not running:
        table.restart()
    table.sql(
        CREATE, *[f"insert into {{t}} values ({n}, 'x'), (3, 'z')" for n in range(inserts)], follow=False
    )
    table.judge(*QUESTIONS)
    table.judge_facets("a", "b")


@pytest.mark.parametrize(
    "inside",
    variants([pytest.param(True, id="index in the folder"), pytest.param(False, id="index elsewhere")], 1),
)
@pytest.mark.supports("Histories", "folder put back from a backup, other commits under old versions", "exact")
def test_a_folder_put_back_from_a_backup_is_another_history(
    spark: Any, table_path: str, inside: bool
) -> None:
    table = JudgedTable(spark, table_path, ["a", "b"], index=None if inside else f"{table_path}-index")
    table.sql(CREATE, "insert into {t} select id, 'x' from range(0, 6, 1, 1)", "delete from {t} where a = 3")
    shutil.copytree(table_path, f"{table_path}-backup")
    table.forget()
    table.sql("delete from {t} where a = 4", "insert into {t} values (3, 'y')", "optimize {t}")
    shutil.rmtree(table_path)
    shutil.copytree(f"{table_path}-backup", table_path)
    table.forget()
    table.sql(
        "insert into {t} values (3, null), (9, 'y')",
        "delete from {t} where a = 5",
        "insert into {t} values (10, 'x')",
        "restore {t} to version as of 1",
        follow=False,
    )
    table.judge(*QUESTIONS)
    table.judge_facets("a", "b")


@pytest.mark.supports(
    "Histories", "a file that comes back with the same name and size, other contents", "exact"
)
def test_files_that_come_back_under_their_names_with_other_contents_are_read_anew(
    spark: Any, table_path: str
) -> None:
    plain: dict[str, Any] = {"compression": "none", "use_dictionary": False}
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    data = pa.table({"a": [1, 3, 4, 2], "b": ["x", "y", "z", "w"]}, schema)
    made = DeltaBuilder(table_path).create(schema)
    made.commit([made.data_file(data, "one.parquet", **plain), made.data_file(data, "two.parquet", **plain)])
    table = JudgedTable(spark, table_path, ["a", "b"])
    table.follow()
    size = os.path.getsize(Path(table_path) / "one.parquet")
    made.commit([made.remove("one.parquet")])
    again = made.data_file(data.take([0, 2, 1, 3]), "one.parquet", **plain)
    assert again["add"]["size"] == size
    made.commit([again])
    table.judge(*QUESTIONS, versions=[2, 3])
    table.judge(*QUESTIONS)
    table.judge_facets("a")


@pytest.mark.supports(
    "Histories", "shallow clone as source", "exact", note="absolute paths to another's files: `allow_outside`"
)
@pytest.mark.supports("Table features", "deletionVectors, at absolute paths", "exact")
@pytest.mark.usefixtures("outside_allowed")
def test_a_shallow_clone_is_read_from_the_files_of_its_origin(spark: Any, table_path: str) -> None:
    origin, clone = JudgedTable(spark, f"{table_path} of %41", []), JudgedTable(spark, table_path, ["a", "b"])
    origin.sql(
        CREATE,
        "insert into {t} select id, if(id % 2 = 0, 'x', null) from range(0, 8, 1, 2)",
        "delete from {t} where a = 3",
        follow=False,
    )
    clone.sql(f"create table {{t}} shallow clone {origin.name}")
    origin.sql("delete from {t} where a = 5", "optimize {t}", follow=False)
    clone.sql(
        "delete from {t} where a = 6",
        "insert into {t} values (3, 'y')",
        "restore {t} to version as of 1",
        "optimize {t}",
    )
    clone.judge(*QUESTIONS)
    clone.judge_facets("a", "b")


@pytest.mark.supports("Histories", "CONVERT TO DELTA", "exact")
def test_a_converted_folder_of_parquet_is_a_table(spark: Any, table_path: str) -> None:
    rows = "values (1, 'x', 'p 1%'), (3, null, 'q'), (4, 'y', null), (3, 'x', 'q') as t(a, b, p)"
    table = JudgedTable(spark, table_path, ["a", "b", "p"])
    table.write(rows, lambda: spark.sql(f"select * from {rows}").write.partitionBy("p").parquet(table_path))
    table.sql(
        f"convert to delta parquet.`{table_path}` partitioned by (p string)",
        "delete from {t} where a = 4",
        "insert into {t} values (7, 'x', 'new')",
    )
    table.judge(*QUESTIONS, "p = 'q'", "p IS NULL OR p = 'p 1%'")
    table.judge_facets("p", "a")


@pytest.mark.supports("Histories", "one commit with 10,000 actions", "exact")
def test_commits_of_ten_thousand_actions_are_followed(spark: Any, table_path: str) -> None:
    schema = pa.schema([("a", pa.int32()), ("b", pa.string())])
    made = DeltaBuilder(table_path).create(schema, features=["deletionVectors"])
    adds = [made.data_file(pa.table({"a": [n, 3, n + 1], "b": ["x", None, "y"]}, schema)) for n in range(4)]
    for n in range(4, FILES):
        add = adds[n % 4]["add"]
        os.link(Path(table_path) / add["path"], Path(table_path) / f"{n}.parquet")
        adds.append({"add": {**add, "path": f"{n}.parquet"}})
    rest = range(10_000 - FILES)
    made.commit([*adds, *({"txn": {"appId": f"writer {n}", "version": 1}} for n in rest)])
    table = JudgedTable(spark, table_path, ["a"])
    table.follow()
    paths = sorted(made.live)
    vector = made.inline_vector([1])
    hidden = [action for path in paths[:100] for action in made.hide(path, vector)]
    made.commit([*hidden, *(made.remove(path) for path in paths[200:])])
    table.judge("a = 3", "b = 'x'", versions=[2])
    table.judge_facets("a")
