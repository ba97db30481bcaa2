"""Schemas: columns that come later, nested fields, names of any characters and in any case, refused types."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.delta_builder import DeltaBuilder
from support.drive import Drive
from support.judged import JudgedTable
from tailbit.errors import ColumnTypeError


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


ADDRESSES = (
    "address.city = 'Oslo'",
    "address.city IS NULL",
    "address.city <=> NULL",
    "address.city NOT IN ('Oslo', 'Bergen')",
    "address.at.lat > 59.0D",
    "address.at.lat IS NULL",
    "address IS NULL",
    "address.at IS NOT NULL",
    "address.zip IS NULL",
    "address.zip = '0150' OR address.city < 'P'",
    "address.at.height = 3 AND id > 0",
)

LATER = (
    "c IS NULL",
    "c IS NOT NULL",
    "c <=> NULL",
    "c <=> 1",
    "c = 1",
    "NOT (c = 1)",
    "c NOT IN (1, 2)",
    "c IN (1, NULL)",
    "c < 2 OR id = 2",
    "c IS DISTINCT FROM 1",
    "p = 'x' AND c IS NULL",
    "c = id",
)


@pytest.mark.supports("Schema", "nested struct fields as indexed columns, NULL structs above them", "exact")
@pytest.mark.supports("Schema", "nested struct fields added later", "exact")
def test_fields_of_structs_are_indexed_at_any_depth(spark: Any, table_path: str) -> None:
    fields = ["address.city", "address.at.lat", "address.zip", "ADDRESS.At.Height"]
    table = JudgedTable(spark, table_path, fields)
    table.sql(
        "create table {t} (id int, address struct<city:string, at:struct<lat:double, lon:double>>)"
        " using delta",
        "insert into {t} select /*+ repartition(1) */ * from values"
        " (1, named_struct('city','Oslo','at',named_struct('lat',59.9D,'lon',10.7D))), (2, null),"
        " (3, named_struct('city',null,'at',null)),"
        " (4, named_struct('city','Rome','at',named_struct('lat',cast(null as double),'lon',1.0D)))",
        "alter table {t} add columns (address.zip string after city)",
        "alter table {t} add columns (address.at.height int first)",
        follow=False,
    )
    table.sql(
        "insert into {t} values"
        " (5, named_struct('city','Oslo','zip','0150','at',named_struct('height',3,'lat',59.9D,'lon',1.0D)))",
        "update {t} set address.zip = '0151' where id = 1",
    )
    table.judge(*ADDRESSES, versions=[1, 4, 5])
    table.judge_facets(*fields)
    table.judge_facets("address.city", version=1)


@pytest.mark.supports("Schema", "columns added later: NULL in older files", "exact")
def test_a_column_added_later_is_null_in_older_files(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["c", "id"])
    table.sql(
        "create table {t} (id int, p string) using delta partitioned by (p)",
        "insert into {t} values (1, 'x'), (2, 'x'), (3, 'y')",
        "alter table {t} add columns (c int first, d string)",
        follow=False,
    )
    table.follow()
    table.sql(
        "insert into {t} (id, p, c, d) values (1, 'x', 1, 'a'), (5, 'y', null, 'b')",
        "delete from {t} where id = 2",
    )
    table.judge(*LATER, versions=[1, 3, 4])
    table.judge_facets("c", "d")


PLAIN_NAMES = ("a.b", "it's", 'say"so"', "tick`s", "100%", "größe", "日本語", "a-b/c\\d", "x$y#z", "1st")
"""Names that Delta takes without column mapping."""
MAPPED_NAMES = ("a b", "x,y;z", "{k}=(v)", "new\nline", "a.b", " ", "`", "%20")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.mark.parametrize(("mode", "names"), [("none", PLAIN_NAMES), ("name", MAPPED_NAMES)])
@pytest.mark.supports("Schema", "names with dots, spaces, quotes, backticks, percent signs, unicode", "exact")
def test_names_may_hold_any_character(spark: Any, table_path: str, mode: str, names: Sequence[str]) -> None:
    columns = [quoted(name) for name in names]
    table = JudgedTable(spark, table_path, [*columns, f"s.{columns[0]}"])
    fields = ", ".join(f"{column} int" for column in columns)
    numbers = ", ".join(map(str, range(len(names))))
    table.sql(
        f"create table {{t}} ({fields}, s struct<{columns[0]}:int>, `p q` string) using delta"
        f" partitioned by (`p q`) tblproperties ('delta.columnMapping.mode'='{mode}')"
        if mode == "name"
        else f"create table {{t}} ({fields}, s struct<{columns[0]}:int>, `p.q` string) using delta"
        " partitioned by (`p.q`)",
        f"insert into {{t}} values ({numbers}, named_struct('x', 1), 'a'), ({numbers}, null, 'b')",
    )
    partition = "`p q`" if mode == "name" else "`p.q`"
    asked = [f"{column} = {n}" for n, column in enumerate(columns)]
    table.judge(*asked, f"s.{columns[0]} = 1", f"{partition} = 'a' AND {columns[1]} = 1", versions=[1])
    table.judge_facets(columns[0], partition)


@pytest.mark.supports("Schema", "names in any case, in predicates, in the schema and in files", "exact")
def test_names_are_the_same_in_any_case(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["NAME", "addr.CITY"])
    table.sql(
        "create table {t} (Id int, Name string, Addr struct<City:string>, Part string) using delta"
        " partitioned by (Part)",
        "insert into {t} values (1, 'a', named_struct('City', 'Oslo'), 'x')",
    )
    builder = DeltaBuilder.of(table_path)
    city = pa.array([{"CITY": "Oslo"}, {"CITY": "Rome"}, None], pa.struct([("CITY", pa.string())]))
    rows = pa.table({"nAME": ["a", "b", None], "ADDR": city, "iD": pa.array([1, 2, 3], pa.int32())})
    builder.commit([builder.data_file(rows, partition={"Part": "y"})])
    table.judge(
        "NAME = 'a'", "`nAmE` IS NULL", "ADDR.city = 'Oslo'", "addr.`CITY` > 'P'", "ID < 3", "PART = 'y'"
    )
    table.judge_facets("nAMe", "aDDR.city", "pART")


@pytest.mark.supports("Schema", "columns that are never NULL", "exact")
def test_columns_that_are_never_null_are_asked_like_others(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["a", "s.x"])
    table.sql(
        "create table {t} (a int not null, s struct<x:int not null>, t struct<y:string> not null)"
        " using delta",
        "insert into {t} values (1, named_struct('x', 1), named_struct('y', null)),"
        " (2, named_struct('x', 2), named_struct('y', 'b'))",
        "alter table {t} alter column a drop not null",
        "alter table {t} alter column s.x drop not null",
        "insert into {t} values (null, null, named_struct('y', 'c'))",
    )
    table.judge(
        "a IS NULL", "a IS NOT NULL", "s.x IS NULL", "s.x = 1", "s IS NULL", "t.y IS NULL", "NOT (a = 1)"
    )
    table.judge_facets("a", "s.x")


NESTED = ("tags", "scores", "place", "places")
UNINDEXED = ("scores", "place", "places")


@pytest.mark.supports(
    "Schema", "array, map and struct columns", "refused", note="as indexed columns; not arrays of values"
)
@pytest.mark.supports("Schema", "array, map and struct columns", "scanned", note="read, and asked for NULL")
def test_arrays_maps_and_structs_are_read_but_not_indexed(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["id", "place.city"])
    table.sql(
        "create table {t} (id int, tags array<string>, scores map<string,array<int>>, place"
        " struct<city:string>, places array<struct<city:string, at:map<int,date>>>) using delta",
        "insert into {t} values"
        " (1, array('a', null), map('k', array(1, null), 'n', null), named_struct('city', 'Oslo'),"
        " array(named_struct('city', 'Oslo', 'at', map(1, date'2020-01-01')), null)),"
        " (2, array(), map(), named_struct('city', null), array()), (3, null, null, null, null)",
    )
    table.judge(
        "tags IS NULL",
        "scores IS NOT NULL",
        "place IS NULL",
        "places IS NULL OR id = 1",
        "place.city = 'Oslo'",
    )
    for column in UNINDEXED:
        with pytest.raises(ColumnTypeError, match=column):
            Drive(table_path, f"{table_path}-refused", [column])
    for column in NESTED:
        with pytest.raises(ColumnTypeError, match=column):
            tailbit.open(table_path).where(f"{column} = NULL")
        with pytest.raises(ColumnTypeError, match=column):
            tailbit.open(table_path).where().facets(column)
        assert not os.path.exists(f"{table_path}-refused")
