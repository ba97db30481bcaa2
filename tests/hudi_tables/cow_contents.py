"""COPY_ON_WRITE tables of all types of columns, keys and folders, and of columns that change."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal

from cow_kinds import partitioned
from made_table import MadeTable
from pyspark.sql import DataFrame
from writers import two_writers

TYPES = (
    "id bigint, ts bigint, a_bool boolean, an_int int, a_float float, a_double double, a_text string, "
    "some_bytes binary, a_day date, a_moment timestamp, small decimal(5,2), middle decimal(18,4), "
    "large decimal(38,10), words array<string>, counts map<string,int>, "
    "place struct<city: string, at: struct<lat: double, lon: double>>, "
    "stops array<struct<city: string, n: int>>"
)


def typed_row(key: int, ts: int, nothing: str | None = None) -> tuple[object, ...]:
    """Return a row of every type; each third key has NULLs, and empty or partly NULL nested values.

    `nothing` stands in lists where a NULL would: lists written in the older way have none.
    """
    if key % 6 == 5:
        return (key, ts, *[None] * 15)
    if key % 3 == 2:
        return (key, ts, *[None] * 11, [], {}, (None, None), [("Oslo", None)])
    mixed = key + ts
    return (
        key,
        ts,
        mixed % 2 == 0,
        mixed % 5 - 2,
        float("nan") if mixed % 4 == 0 else -0.0 if mixed % 4 == 1 else mixed / 4,
        float("inf") if mixed % 5 == 0 else mixed / 8,
        ("", "ä", "a$b", "Ω'\"\\", "z" * 40)[mixed % 5],
        bytes([mixed % 3, 0, 255]),
        date(1900 + mixed % 3 * 100, 2, 28),
        datetime(1969 + mixed % 3, 12, 31, 23, 59, 59, 999_999 - mixed, timezone.utc),
        Decimal(mixed % 7 - 3) / 4,
        Decimal("12345678901234.5678") - mixed % 3,
        Decimal("1234567890123456789012345678.0123456789") + mixed % 2,
        ["x", nothing, f"w{mixed % 3}"],
        {"n": mixed % 4, "none": None},
        (f"c{mixed % 3}", (mixed / 2, None)),
        [(f"s{mixed % 2}", mixed % 3)],
    )


def write_types(made: MadeTable, nothing: str | None) -> None:
    """Insert, upsert and delete rows of every type."""
    made.write(made.frame([typed_row(key, 1, nothing) for key in range(15)], TYPES), "insert")
    made.write(made.frame([typed_row(key, 2, nothing) for key in range(8, 20)], TYPES), "upsert")
    made.write(made.frame([typed_row(key, 3, nothing) for key in range(3)], TYPES), "delete")


def cow_v9_types(made: MadeTable) -> None:
    """Hold columns of every type, nested ones too, NULLs and odd numbers in them."""
    with made.lists_with_nulls():
        write_types(made, None)


def cow_v6_types(made: MadeTable) -> None:
    """Hold columns of every type in a table of version 6, lists in the older way of two levels."""
    made.write(made.frame([typed_row(key, 0, "y") for key in range(3)], TYPES), "bulk_insert")
    write_types(made, "y")


def cow_v6_units(made: MadeTable) -> None:
    """Declare milliseconds of times that files of three writers label as microseconds, nested ones too."""
    text = (
        "id bigint, ts bigint, city string, moment timestamp, stop struct<at: timestamp>, "
        "times array<timestamp>, stops array<struct<at: timestamp>>, "
        "by_name map<string,timestamp>, lists map<string,array<timestamp>>"
    )

    def rows(keys: range) -> DataFrame:
        at = [datetime.fromtimestamp(1_720_631.224939 + key, timezone.utc) for key in keys]
        many = [
            (k, 1, "Oslo", t, (t,), [t, t], [(t,)], {"a": t}, {"a": [t]})
            for k, t in zip(keys, at, strict=True)
        ]
        return made.frame([*many], text)

    made.write(rows(range(3)), "insert")
    with made.lists_with_nulls():
        made.write(rows(range(3, 6)), "insert", parquet__small__file__limit=0)
    with made.recorded():
        made.write_silently(rows(range(6, 9)), "bulk_insert")
        commit = max(made.table.glob(".hoodie/*.commit"))
        commit.write_text(commit.read_text().replace("timestamp-micros", "timestamp-millis"))
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)


def cow_v9_columns(made: MadeTable) -> None:
    """Add a column and widen others, while some files stay as they were."""
    partitioned(made, hive_style=False)
    older = "id bigint, ts bigint, part string, qty int, rate float, n int, city string"
    newer = "id bigint, ts bigint, part string, qty bigint, rate double, n double, city string"
    added = f"{newer}, note string, tags array<string>"

    def row(key: int, *more: object) -> tuple[object, ...]:
        return (key, 1, f"p{key % 3}", key % 4, key / 10, key, "Oslo" if key % 2 else None, *more)

    made.write(made.frame([row(key) for key in range(12)], older), "insert")
    widened = [(k, 2, f"p{k % 3}", 2**40 + k, k / 3, k + 0.5, "Lima") for k in (0, 3, 12)]
    made.write(made.frame(widened, newer), "upsert")
    with_note = [(k, 3, f"p{k % 3}", k, None, None, "Pune", f"n{k % 2}", ["a", "b"]) for k in (1, 4, 13)]
    made.write(made.frame(with_note, added), "upsert")
    made.write(made.frame([(20, 4, "p2", 20, 0.5, 1.5, None, None, None)], added), "upsert")


def cow_v9_duplicates(made: MadeTable) -> None:
    """Hold rows of one key twice: bulk_insert looks for none, an upsert meets both."""
    made.write(made.orders([*range(10), 3, 4, 3], 1), "bulk_insert")
    made.write(made.orders([3, 5], 2), "upsert")
    made.write(made.orders([4, 11, 11], 3), "insert", merge__allow__duplicate__on__inserts="true")
    made.write(made.orders([4], 4), "delete")


def cow_v9_bucket(made: MadeTable) -> None:
    """Give each key a file group by its hash: two buckets in each folder."""
    partitioned(made, hive_style=False)
    made.set(index__type="BUCKET", bucket__index__num__buckets="2", bucket__index__hash__field="id")
    made.write(made.orders(range(24), 1), "insert")
    made.write(made.orders([*range(8), *range(30, 36)], 2), "upsert")
    made.write(made.orders([3, 4, 31], 2), "delete")
    made.write(made.orders(range(40, 43), 3), "insert_overwrite")
    made.write(made.orders([41, 44], 4), "upsert")


def cow_v9_moving(made: MadeTable) -> None:
    """Move rows between folders: the index is global and the folder is the city, which may be NULL."""
    made.set(
        datasource__write__partitionpath__field="city",
        index__type="GLOBAL_SIMPLE",
        simple__index__update__partition__path="true",
    )
    made.write(made.orders(range(20), 1), "insert")
    made.write(made.orders(range(8), 2), "upsert")
    made.write(made.orders([*range(4), 25], 3), "upsert")


def cow_v8_folders(made: MadeTable) -> None:
    """Nest folders by two columns with odd values, under keys of two columns."""
    made.set(
        datasource__write__recordkey__field="id,ts",
        datasource__write__partitionpath__field="day,city",
        datasource__write__hive_style_partitioning="true",
        datasource__write__partitionpath__urlencode="true",
        datasource__write__keygenerator__class="org.apache.hudi.keygen.ComplexKeyGenerator",
    )
    schema = "id bigint, ts bigint, day date, city string, qty int"
    cities = ("São/Paulo", "a b=c%", None, "ü:x")
    rows = [(key, 1, date(2024, 1, 1 + key % 2), cities[key % 4], key % 3) for key in range(12)]
    made.write(made.frame(rows, schema), "insert")
    made.write(made.frame([(*row[:4], 7) for row in rows[:5]], schema), "upsert")
    made.write(made.frame(rows[:2], schema), "delete")


def cow_v9_cdc(made: MadeTable) -> None:
    """Log changes beside the data files, which no reader of rows looks at."""
    made.set(table__cdc__enabled="true", table__cdc__supplemental__logging__mode="DATA_BEFORE_AFTER")
    made.write(made.orders(range(10), 1), "insert")
    made.write(made.orders([0, 1, 11], 2), "upsert")
    made.write(made.orders([2], 2), "delete")


def cow_v9_bare(made: MadeTable) -> None:
    """Fill none of Hudi's own columns: keys are computed where they are needed."""
    partitioned(made, hive_style=False)
    made.set(populate__meta__fields="false")
    made.write(made.orders(range(10), 1), "insert")
    made.write(made.orders([0, 1, 11], 2), "upsert")
    made.write(made.orders([2, 3], 2), "delete")


def cow_v9_groups(made: MadeTable) -> None:
    """Write files of several row groups."""
    made.set(parquet__block__size=2000, parquet__page__size=500)
    made.write(made.orders(range(600), 1), "bulk_insert")
    made.write(made.orders(range(0, 600, 7), 2), "upsert")


def cow_v9_sql(made: MadeTable) -> None:
    """Write by SQL: INSERT, UPDATE, DELETE, MERGE, with the metadata table and its indexes beside."""
    two_writers(made)
    made.set(metadata__enable="true", metadata__record__index__enable="true")
    made.write(made.orders(range(12), 1), "insert")
    made.sql("UPDATE {t} SET city = 'Rome', qty = NULL WHERE id % 4 = 1")
    made.sql("DELETE FROM {t} WHERE id IN (2, 3)")
    made.sql(
        "MERGE INTO {t} t USING (SELECT 5L id, 9L ts, 'Oslo' city UNION ALL SELECT 6L, 9L, NULL) s "
        "ON t.id = s.id WHEN MATCHED AND s.city IS NULL THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET t.city = s.city, t.ts = s.ts"
    )
    made.sql("CREATE INDEX by_city ON {t} (city)")
    made.write(made.orders([0, 1], 12), "upsert")


def cow_v9_null_folders(made: MadeTable) -> None:
    """Partition by two columns whose values are texts, empty texts and NULL."""
    made.set(datasource__write__partitionpath__field="v,w", parquet__small__file__limit=0)
    schema, values = "id bigint, ts bigint, v string, w string, city string", ("", None, "x")
    for ts, city, count in ((5, "Oslo", 9), (6, "Lima", 4)):
        rows = [(key, ts, values[key % 3], values[key // 3 % 3], city) for key in range(count)]
        made.write(made.frame(rows, schema), "insert" if ts == 5 else "upsert")


CONTENTS = (
    cow_v9_types,
    cow_v6_types,
    cow_v6_units,
    cow_v9_columns,
    cow_v9_duplicates,
    cow_v9_bucket,
    cow_v9_moving,
    cow_v8_folders,
    cow_v9_cdc,
    cow_v9_bare,
    cow_v9_groups,
    cow_v9_sql,
    cow_v9_null_folders,
)
