"""Tables of rarer shapes, made with Iceberg's own classes by way of Spark's JVM: equality deletes, UUIDs.

`make.py` calls each function; Spark writes no equality deletes and has no type for UUIDs.
"""

from __future__ import annotations

import datetime
import json
import uuid
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from make import Maker

Key = tuple[int, str, pa.DataType, Sequence[Any]]
"""A column of an equality delete file: field id, name, type and values."""
MERGED = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}
UTC = datetime.timezone.utc


def of_number(n: int) -> uuid.UUID:
    """A UUID, below and above the middle of all."""
    return uuid.UUID(int=n * 10**37 + 7)


class Api:
    """Iceberg's classes for one table."""

    def __init__(self, maker: Maker) -> None:
        self.maker = maker
        self.iceberg = maker.spark._jvm.org.apache.iceberg
        warehouse = str(maker.path.parents[1])
        self.catalog = self.iceberg.hadoop.HadoopCatalog(maker.spark._jsc.hadoopConfiguration(), warehouse)
        self.name = self.iceberg.catalog.TableIdentifier.parse(f"d.{maker.name}")

    def create(self, fields: Sequence[tuple[int, str, Any]], version: int, parts: Sequence[Any] = ()) -> None:
        """Create the table; the first field is required. `parts`: source id, transform and name."""
        listed = [
            {"id": id_, "name": name, "required": id_ == 1, "type": type_} for id_, name, type_ in fields
        ]
        schema = self.iceberg.SchemaParser.fromJson(json.dumps({"type": "struct", "fields": listed}))
        specs = [
            {"source-id": source, "transform": transform, "name": name, "field-id": 1000 + n}
            for n, (source, transform, name) in enumerate(parts)
        ]
        spec = self.iceberg.PartitionSpecParser.fromJson(schema, json.dumps({"spec-id": 0, "fields": specs}))
        properties = self.maker.spark._jvm.java.util.HashMap()
        for key, value in {"format-version": str(version), **(MERGED if version > 1 else {})}.items():
            properties.put(key, value)
        self.catalog.createTable(self.name, schema, spec, properties)

    def partition(self, folder: str) -> tuple[Any, Any]:
        """The partition and the spec of the data files whose paths have a folder."""
        table = self.catalog.loadTable(self.name)
        files = table.newScan().planFiles().iterator()
        while files.hasNext():
            file = files.next().file()
            if f"/{folder}/" in file.location():
                return file.partition(), table.specs().get(file.specId())
        raise KeyError(folder)

    def delete(self, *keys: Key, folder: str = "", ids: Sequence[int] = ()) -> None:
        """Commit an equality delete, of a partition if `folder` names one. `ids`: keys within columns."""
        table = self.catalog.loadTable(self.name)
        schema = pa.schema([with_id(name, type_, id_) for id_, name, type_, _ in keys])
        rows = pa.table([pa.array(values, type_) for _, _, type_, values in keys], schema=schema)
        path = Path(self.maker.path) / "data" / f"{uuid.uuid4().hex}-deletes.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(rows, path, store_schema=False)
        partition, spec = self.partition(folder) if folder else (None, table.spec())
        jvm, given = self.maker.spark._jvm, ids or [key[0] for key in keys]
        numbers = self.maker.spark.sparkContext._gateway.new_array(jvm.int, len(given))
        for n, id_ in enumerate(given):
            numbers[n] = id_
        file = self.iceberg.FileMetadata.deleteFileBuilder(spec).ofEqualityDeletes(numbers)
        file = file.withPath(str(path)).withFormat("PARQUET").withRecordCount(rows.num_rows)
        file = file.withFileSizeInBytes(path.stat().st_size)
        table.newRowDelta().addDeletes((file.withPartition(partition) if folder else file).build()).commit()
        self.maker.sql("REFRESH TABLE {t}")


def with_id(name: str, type_: pa.DataType, id_: int) -> pa.Field:
    """A field of a Parquet file."""
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(id_)})


def uuids(maker: Maker, version: int) -> None:
    """UUIDs, plain, as partitions and within structs and lists; fixed lengths; large decimals."""
    struct = {"type": "struct", "fields": [{"id": 7, "name": "v", "required": False, "type": "uuid"}]}
    listed = {"type": "list", "element-id": 9, "element-required": False, "element": "uuid"}
    fields = [(1, "k", "long"), (2, "u", "uuid"), (3, "f", "fixed[4]"), (4, "x", "binary")]
    fields += [(5, "d", "decimal(38, 5)"), (6, "st", struct), (8, "l", listed)]
    hashed = [(2, "bucket[4]", "ub"), (5, "bucket[3]", "db"), (4, "bucket[2]", "xb")]
    Api(maker).create(fields, version, hashed if version > 1 else [(2, "identity", "u")])
    for first, end in ((0, 12), (12, 20)):
        values = [
            f"({n}, {u}, CAST('ab{n % 10}d' AS BINARY), X'{n:02x}ff', {d}, {st}, array({u}, NULL))"
            for n in range(first, end)
            for u in [f"'{of_number(n)}'" if n % 5 else "NULL"]
            for d in [f"CAST({n}.25 AS DECIMAL(38, 5))" if n % 4 else "NULL"]
            for st in [f"named_struct('v', {u})" if n % 3 else "NULL"]
        ]
        maker.sql("INSERT INTO {t} VALUES " + ", ".join(values))
    maker.sql("DELETE FROM {t} WHERE k IN (3, 15)" if version > 1 else "DELETE FROM {t} WHERE u IS NULL")
    if version > 1:
        maker.sql(f"DELETE FROM {{t}} WHERE u = '{of_number(7)}'")
        maker.sql("UPDATE {t} SET f = CAST('zzzz' AS BINARY) WHERE k = 8")


def keys(maker: Maker, version: int) -> None:
    """Equality deletes by keys of every type, NULL, NaN, zeros, promoted, renamed and dropped columns."""
    api = Api(maker)
    fields = [(1, "k", "int"), (2, "u", "uuid"), (3, "fx", "fixed[4]"), (4, "x", "binary")]
    fields += [
        (5, "d", "decimal(20, 3)"),
        (6, "day", "date"),
        (7, "ts", "timestamptz"),
        (8, "tn", "timestamp"),
    ]
    fields += [(9, "b", "boolean"), (10, "f", "float"), (11, "g", "double"), (12, "s", "string")]
    api.create([*fields, (13, "gone", "int")], version)
    floats = ("float('NaN')", "CAST(0.0 AS FLOAT)", "CAST(-0.0 AS FLOAT)", "NULL", "1.1F")
    doubles = ("0.0D", "-0.0D", "double('NaN')", "NULL", "2.5D")

    def insert(first: int, end: int, *more: str) -> None:
        values = [
            f"({n}, {u}, CAST('ab{n % 10}d' AS BINARY), X'{n:02x}ff', {n}.250, DATE'1970-01-0{1 + n % 9}',"
            f" TIMESTAMP'2020-01-01 0{n % 9}:00:00Z', TIMESTAMP_NTZ'1969-12-31 0{n % 9}:00:00',"
            f" {'true' if n % 3 == 0 else 'NULL'}, {floats[n % 5]}, {doubles[n // 2 % 5]},"
            f" {('NULL', repr('a'), repr('é'))[n % 3]}{''.join(f', {text}' for text in more)})"
            for n in range(first, end)
            for u in [f"'{of_number(n)}'" if n % 7 else "NULL"]
        ]
        maker.sql("INSERT INTO {t} VALUES " + ", ".join(values))

    insert(0, 10, "1")
    api.delete((2, "u", pa.uuid(), [of_number(3).bytes, None]))
    api.delete((10, "f", pa.float32(), [float("nan")]), (1, "k", pa.int32(), [5]))
    insert(10, 20, "NULL")
    api.delete((3, "fx", pa.binary(4), [b"ab2d"]))
    api.delete((4, "x", pa.binary(), [b"\x0d\xff"]))
    api.delete((5, "d", pa.decimal128(20, 3), [Decimal("6.250")]), (1, "k", pa.int32(), [6]))
    api.delete((11, "g", pa.float64(), [-0.0]))
    maker.sql("ALTER TABLE {t} ALTER COLUMN k TYPE BIGINT")
    maker.sql("ALTER TABLE {t} ALTER COLUMN f TYPE DOUBLE")
    insert(20, 30, "3")
    api.delete((6, "day", pa.date32(), [0]))
    api.delete((7, "ts", pa.timestamp("us", "UTC"), [datetime.datetime(2020, 1, 1, 4, tzinfo=UTC)]))
    api.delete((8, "tn", pa.timestamp("us"), [datetime.datetime(1969, 12, 31, 5)]))  # noqa: DTZ001
    api.delete((9, "b", pa.bool_(), [True]), (1, "k", pa.int64(), [27]))
    api.delete((10, "f", pa.float64(), [1.100000023841858]), (1, "k", pa.int32(), [14]))
    maker.sql("ALTER TABLE {t} DROP COLUMN gone")
    maker.sql("ALTER TABLE {t} RENAME COLUMN s TO text")
    insert(30, 34)
    api.delete((13, "gone", pa.int32(), [None]), (12, "s", pa.string(), [None]))
    api.delete((12, "text", pa.string(), ["a", "a"]), (1, "k", pa.int64(), [22, 31]))
    maker.call("rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))")
    maker.sql("DELETE FROM {t} WHERE k = 33")


def specs(maker: Maker, version: int) -> None:
    """Equality deletes of a NULL partition, of one with odd characters, of an older spec and of all."""
    api = Api(maker)
    api.create([(1, "k", "long"), (2, "s", "string"), (3, "p", "string")], version, [(3, "identity", "p")])

    def insert(first: int, end: int) -> None:
        parts = ("NULL", "'a b'", "'x/y%z'")
        maker.sql(
            "INSERT INTO {t} VALUES "
            + ", ".join(f"({n}, 's{n % 3}', {parts[n % 3]})" for n in range(first, end))
        )

    insert(0, 12)
    api.delete((2, "s", pa.string(), ["s0"]), (1, "k", pa.int64(), [3]), folder="p=null")
    api.delete((1, "k", pa.int64(), [4, 3]), folder="p=a+b")
    maker.sql("ALTER TABLE {t} DROP PARTITION FIELD p")
    insert(12, 18)
    api.delete((1, "k", pa.int64(), [5, 13, 0]))
    maker.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, k)")
    insert(18, 24)
    api.delete((1, "k", pa.int64(), [*range(24)]), folder="k_bucket_2=0")
    api.delete((1, "k", pa.int64(), [7, 20]), folder="p=a+b")
    maker.call("rewrite_manifests('{t}')")
    maker.sql("DELETE FROM {t} WHERE k = 8")


def within(maker: Maker, version: int) -> None:
    """Equality deletes by a field of a struct, which may be NULL as a whole."""
    api = Api(maker)
    inner = [{"id": 3, "name": "a", "required": False, "type": "int"}]
    api.create([(1, "k", "long"), (2, "st", {"type": "struct", "fields": inner})], version)
    struct = pa.struct([with_id("a", pa.int32(), 3)])
    maker.sql("INSERT INTO {t} VALUES (1, named_struct('a', 1)), (2, NULL), (3, named_struct('a', NULL))")
    api.delete((2, "st", struct, [{"a": 1}]), ids=[3])
    api.delete((2, "st", struct, [{"a": None}]), ids=[3])
    maker.sql("INSERT INTO {t} VALUES (4, NULL), (5, named_struct('a', 1)), (6, named_struct('a', NULL))")
    api.delete((2, "st", struct, [None]), ids=[3])


def paths(maker: Maker, version: int) -> None:
    """Partitions with odd characters, of floats, booleans, bytes, decimals, times; odd names of columns."""
    columns = "`a.b` BIGINT, p STRING, d DOUBLE, b BOOLEAN, x BINARY, c DECIMAL(10, 2), `t s` TIMESTAMP"
    maker.create(f"{columns}, st STRUCT<`x.y`: INT>", version, "p, d, b, x, c, `t s`", **MERGED)
    texts = ("'a b'", "'50%'", "'%2F'", "'x/y'", "'='", "NULL", "''", "'ä#?&+'", "'a:b'")
    doubles = ("double('NaN')", "-0.0D", "0.0D", "NULL", "1e300D")
    values = [
        f"({n}, {p}, {doubles[n % 5]}, {('true', 'false', 'NULL')[n % 3]}, X'0{n}', {n}.25,"
        f" TIMESTAMP'1969-12-31 23:59:5{n}Z', named_struct('x.y', {n}))"
        for n, p in enumerate(texts)
    ]
    maker.sql("INSERT INTO {t} VALUES " + ", ".join(values))
    maker.sql("DELETE FROM {t} WHERE p = '%2F'")
    maker.sql("ALTER TABLE {t} RENAME COLUMN `a.b` TO `c.d.e`")
    maker.sql("ALTER TABLE {t} RENAME COLUMN st.`x.y` TO `a.b`")
    maker.sql("UPDATE {t} SET p = 'moved here' WHERE p = ''")
    maker.sql("ALTER TABLE {t} ADD COLUMN `a.b` STRING")
    maker.sql("INSERT OVERWRITE {t} SELECT `c.d.e`, p, d, b, x, c, `t s`, st, NULL FROM {t} WHERE d = 0")


def bare(maker: Maker, version: int) -> None:
    """A table of version 1 whose snapshots hold their manifests, with void partitions; then version 2."""
    maker.create(
        "k BIGINT, s STRING, ts TIMESTAMP", 1, "s, days(ts)", **{"write.manifest-lists.enabled": "false"}
    )
    maker.sql("INSERT INTO {t} VALUES (1, 'a', TIMESTAMP'1969-12-31 00:00:01Z'), (2, 'b', NULL)")
    maker.sql("ALTER TABLE {t} DROP PARTITION FIELD s")
    maker.sql("INSERT INTO {t} VALUES (3, 'a', TIMESTAMP'1970-01-01 00:00:01Z')")
    maker.sql("ALTER TABLE {t} RENAME COLUMN s TO text")
    maker.sql("ALTER TABLE {t} DROP PARTITION FIELD ts_day")
    maker.sql("INSERT INTO {t} VALUES (4, 'q', TIMESTAMP'2970-01-01 00:00:01Z')")
    maker.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='2')")
    Api(maker).delete((1, "k", pa.int64(), [1, 4]))


def nested(maker: Maker, version: int) -> None:
    """Fields within structs, lists and maps added, promoted, renamed, dropped: all that a file has."""
    columns = "l ARRAY<STRUCT<a: INT, b: STRING>>, mp MAP<STRING, STRUCT<x: FLOAT>>, ll ARRAY<ARRAY<INT>>"
    struct = "st STRUCT<i: STRUCT<j: DECIMAL(5, 1)>, li: ARRAY<INT>>"
    maker.create(f"k INT, {columns}, {struct}", version)
    maker.sql(
        "INSERT INTO {t} VALUES (1, array(named_struct('a', 1, 'b', 'x'), NULL),"
        " map('m', named_struct('x', 1.5F)), array(array(1), NULL),"
        " named_struct('i', named_struct('j', 1.5), 'li', array(1, NULL))),"
        " (2, NULL, NULL, NULL, NULL),"
        " (3, array(), map(), array(array()), named_struct('i', NULL, 'li', array()))"
    )
    for change in (
        *("ADD COLUMN l.element.c INT", "ADD COLUMN mp.value.y STRING", "ADD COLUMN st.i.n STRING"),
        *("ALTER COLUMN l.element.a TYPE BIGINT", "ALTER COLUMN mp.value.x TYPE DOUBLE"),
        *("ALTER COLUMN st.i.j TYPE DECIMAL(10, 1)", "ALTER COLUMN st.li.element TYPE BIGINT"),
        *("ALTER COLUMN ll.element.element TYPE BIGINT", "RENAME COLUMN l.element.b TO bb"),
    ):
        maker.sql(f"ALTER TABLE {{t}} {change}")
    big = 9_999_999_999
    maker.sql(
        f"INSERT INTO {{t}} VALUES (4, array(named_struct('a', {big}, 'bb', 'x', 'c', 1)),"
        f" map('m', named_struct('x', 1.1D, 'y', 'q')), array(array({big})),"
        f" named_struct('i', named_struct('j', 123456.5, 'n', 'n'), 'li', array({big})))"
    )
    maker.sql("ALTER TABLE {t} DROP COLUMN st.i.j")
    maker.sql("ALTER TABLE {t} DROP COLUMN l.element.a")
    maker.sql("ALTER TABLE {t} ADD COLUMN l.element.a STRING FIRST")
    maker.sql(
        "INSERT INTO {t} VALUES (5, array(named_struct('a', 's', 'bb', 'x', 'c', 1)), NULL, NULL,"
        " named_struct('i', named_struct('n', 'n'), 'li', NULL))"
    )


def defaults(maker: Maker, version: int) -> None:
    """Columns with default values of every type, also within a struct; one is promoted later."""
    api = Api(maker)
    inner = [{"id": 3, "name": "a", "required": False, "type": "int"}]
    api.create([(1, "k", "int"), (2, "st", {"type": "struct", "fields": inner})], version)
    maker.sql("INSERT INTO {t} VALUES (1, named_struct('a', 1)), (2, NULL)")
    types, lit = api.iceberg.types.Types, api.iceberg.expressions.Expressions.lit
    given = {
        "i": (types.IntegerType.get(), 7),
        "s": (types.StringType.get(), "given"),
        "p": (types.DecimalType.of(9, 2), "1.25"),
        "day": (types.DateType.get(), "2021-02-03"),
        "tz": (types.TimestampType.withZone(), "2021-02-03T04:05:06+00:00"),
        "tn": (types.TimestampType.withoutZone(), "2021-02-03T04:05:06.5"),
        "f": (types.FloatType.get(), 1.5),
        "b": (types.BooleanType.get(), True),
        "u": (types.UUIDType.get(), str(of_number(5))),
    }
    update = api.catalog.loadTable(api.name).updateSchema()
    for name, (type_, value) in given.items():
        update = update.addColumn(name, type_, lit(value).to(type_))
    update.addColumn("st", "z", given["s"][0], "", lit("within")).commit()
    maker.sql("REFRESH TABLE {t}")
    nulls = ", ".join(["NULL"] * (len(given) - 2))
    maker.sql(f"INSERT INTO {{t}} VALUES (3, named_struct('a', 3, 'z', NULL), 1, 's', {nulls})")
    api.catalog.loadTable(api.name).updateSchema().updateColumn("i", types.LongType.get()).commit()
    maker.sql("REFRESH TABLE {t}")
    maker.sql("DELETE FROM {t} WHERE k = 2")
    maker.sql("INSERT INTO {t} (k) VALUES (4)")


def variants(maker: Maker, version: int) -> None:
    """Variants of every type, whole and shredded into columns: objects with other fields, of other types."""
    columns = "k BIGINT, v VARIANT, w VARIANT, l VARIANT, st STRUCT<n: VARIANT>, a ARRAY<VARIANT>"
    maker.create(columns, version, **MERGED, **{"write.parquet.shred-variants": "true"})
    typed = """to_variant_object(named_struct('i', CAST(id AS INT), 'g', id * 9999999999,
        'f', CAST(id AS FLOAT) / 4, 'd', CAST(id AS DOUBLE) / 3, 'p', CAST(id AS DECIMAL(5, 2)) / 4,
        'q', CAST(id AS DECIMAL(18, 4)), 'r', CAST(id AS DECIMAL(38, 10)) * -1,
        'day', date_add(DATE'1969-12-28', CAST(id AS INT)), 'x', CAST(concat('b', id) AS BINARY),
        'ts', timestamp_micros(id * 3600000000 - 90000000000), 'tn', TIMESTAMP_NTZ'2020-02-28 23:30:00',
        'b', id % 2 = 0, 's', repeat('ä', CAST(id * 9 AS INT)), 'z', IF(id % 3 = 0, NULL, id)))"""

    def insert(first: int, end: int) -> None:
        maker.sql(
            f"""INSERT INTO {{t}} SELECT id, CASE id % 8
              WHEN 0 THEN NULL WHEN 1 THEN parse_json('null') WHEN 2 THEN parse_json('[1, "x", {{"a": 2}}]')
              WHEN 3 THEN parse_json('{{"a": "other", "more": {{"ü": [null, 1.5]}}, "b": null}}')
              WHEN 4 THEN parse_json('{{}}')
              ELSE parse_json(concat('{{"b": "t', id, '", "a": ', id, ', "c": {{"e": [', id, ', 2], "d": ',
                id / 4, '}}}}'))
            END, {typed}, parse_json(CASE id % 3 WHEN 0 THEN '[]' WHEN 1 THEN concat('[', id, ', 300, "y"]')
              ELSE concat('[', id, ', null]') END),
            named_struct('n', parse_json(concat('{{"q": ', id, '}}'))), array(parse_json(string(id)), NULL)
            FROM range({first}, {end}, 1, 1)"""
        )

    insert(0, 24)
    maker.sql("DELETE FROM {t} WHERE k IN (5, 9)")
    maker.sql(
        "INSERT INTO {t} SELECT id, parse_json(string(id)), to_variant_object(array(string(id))), NULL, NULL,"
        " NULL FROM range(30, 36, 1, 1)"
    )
    maker.sql("ALTER TABLE {t} RENAME COLUMN v TO `the value`")
    maker.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.parquet.shred-variants'='false')")
    insert(40, 48)
    maker.sql("UPDATE {t} SET w = `the value` WHERE k IN (6, 7, 41)")
    maker.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.parquet.shred-variants'='true')")
    maker.call("rewrite_data_files(table => '{t}', options => map('rewrite-all', 'true'))")


SHAPES = {
    **{f"uuids_v{n}": (uuids, n) for n in (1, 2, 3)},
    **{f"keys_v{n}": (keys, n) for n in (2, 3)},
    "specs": (specs, 2),
    "within": (within, 2),
    "paths": (paths, 2),
    "nested": (nested, 2),
    "defaults": (defaults, 3),
    "bare": (bare, 1),
    "variants": (variants, 3),
}
