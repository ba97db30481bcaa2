"""MERGE_ON_READ tables that merge in ways which are seldom met: who comes first, and what orders."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from itertools import product

from cow_kinds import partitioned
from made_table import MadeTable
from mor_kinds import compact, event_time
from pyspark.sql import DataFrame
from writers import held

DELETABLE = "id bigint, ts {type}, city string, _hoodie_is_deleted boolean"


def nonblocking(made: MadeTable) -> None:
    """Let two writers append to one file group without a conflict."""
    made.set(
        index__type="BUCKET",
        index__bucket__engine="SIMPLE",
        table__type="MERGE_ON_READ",
        bucket__index__num__buckets="1",
        bucket__index__hash__field="id",
        write__concurrency__mode="NON_BLOCKING_CONCURRENCY_CONTROL",
        write__lock__provider="org.apache.hudi.client.transaction.lock.InProcessLockProvider",
        clean__failed__writes__policy="LAZY",
    )
    schema = "id bigint, ts bigint, city string"
    made.write(made.frame([(k, 1, "Oslo") for k in range(6)], schema), "upsert")
    with held(made, made.frame([(0, 2, "first"), (1, 2, "first"), (7, 2, "first")], schema)):
        made.write(made.frame([(0, 2, "second"), (2, 2, "second"), (7, 2, "second")], schema), "upsert")
    made.write(made.frame([(3, 2, "third")], schema), "upsert")
    compact(made)
    made.write(made.frame([(0, 3, "fourth")], schema), "upsert")


def mor_v9_nonblocking(made: MadeTable) -> None:
    """Append to one file group by two writers at once, by event time: ordering values are equal."""
    nonblocking(made)


def mor_v9_nonblocking_commit_time(made: MadeTable) -> None:
    """Append to one file group by two writers at once, by commit time."""
    made.set(write__record__merge__mode="COMMIT_TIME_ORDERING")
    nonblocking(made)


def ordered_by(made: MadeTable, type_: str, values: list[object]) -> None:
    """Update and delete by ordering values of a type that are older, equal and newer; `values` ascend."""
    schema = DELETABLE.format(type=type_)
    low, middle, high = values
    made.write(made.frame([(k, middle, "Oslo", False) for k in range(9)], schema), "insert")
    for city, deletes, changed in (
        ("Lima", False, ((0, low), (1, middle), (2, high))),
        ("Pune", True, ((3, low), (4, middle), (5, high))),
        ("Kyiv", False, ((4, low), (5, middle), (2, middle))),
        ("Rome", False, ((6, middle), (5, high))),
    ):
        made.write(made.frame([(key, value, city, deletes) for key, value in changed], schema))


def mor_v9_ordering_moment(made: MadeTable) -> None:
    """Order by a timestamp."""
    at = [datetime(2024, 1, day, tzinfo=timezone.utc) for day in (1, 2, 3)]
    ordered_by(made, "timestamp", list(at))


def mor_v9_ordering_int(made: MadeTable) -> None:
    """Order by an int, also by 0 and by numbers below."""
    ordered_by(made, "int", [-1, 0, 1])


def mor_v9_ordering_text(made: MadeTable) -> None:
    """Order by a string."""
    ordered_by(made, "string", ["a", "a\ue000", "a\U0001f600"])


def every_order(made: MadeTable, type_: str, values: list[object]) -> None:
    """Update and delete, before and after a compaction, by every three ordering values of a type."""
    made.set(parquet__small__file__limit=0)
    chosen = [(*order, change) for order in product(values, repeat=3) for change in "UMD"]

    def rows(place: int, city: str, changes: str, deletes: bool = False) -> DataFrame:
        found = [(key, c[place], city, deletes) for key, c in enumerate(chosen) if c[3] in changes]
        return made.frame(found, DELETABLE.format(type=type_))

    made.write(rows(0, "Oslo", "UMD"), "insert")
    made.write(rows(1, "Lima", "U"))
    made.write(rows(1, "Lima", "M", deletes=True))
    made.write(rows(1, "Lima", "D"), "delete")
    made.write(rows(2, "Rome", "UMD"))
    compact(made)
    made.write(rows(1, "Bonn", "UM"))


def mor_v9_ordering_double(made: MadeTable) -> None:
    """Order by a double: 0.0 is greater than -0.0, and NaN than all numbers."""
    every_order(made, "double", [float("-inf"), -1.5, -0.0, 0.0, 2.5, float("nan")])


def mor_v9_ordering_decimal(made: MadeTable) -> None:
    """Order by a decimal."""
    every_order(made, "decimal(20,3)", [Decimal("-1"), Decimal("0"), Decimal("1.5"), Decimal("10")])


def mor_v9_ordering_boolean(made: MadeTable) -> None:
    """Order by a boolean."""
    every_order(made, "boolean", [False, True])


def mor_v9_ordering_null(made: MadeTable) -> None:
    """Order by a bigint that is NULL in some rows, which meet other such rows alone; elsewhere Hudi fails."""
    made.set(parquet__small__file__limit=0)

    def write(operation: str, city: str, *changed: tuple[object, ...]) -> None:
        rows = [(key, ts, city, bool(deletes)) for key, ts, *deletes in changed]
        made.write(made.frame(rows, DELETABLE.format(type="bigint")), operation)

    write("insert", "Oslo", *((key, None if key in (0, 1, 4, 6) else 5) for key in range(9)))
    write("upsert", "Lima", (0, None), (2, 6), (9, None), (4, None, True), (5, 6, True))
    write("upsert", "Pune", (0, None), (2, 5), (9, None), (4, None), (5, 7))
    write("delete", "Pune", (6, None))
    write("upsert", "Rome", (6, None))
    compact(made)
    write("upsert", "Kyiv", (0, None), (6, None, True), (2, 6))


def mor_v9_log_compaction(made: MadeTable) -> None:
    """Merge log blocks into one as soon as there are two, also deletions; then compact, and go on."""
    made.set(
        log__compaction__enable="true",
        log__compaction__inline="true",
        log__compaction__blocks__threshold=2,
        parquet__small__file__limit=0,
    )

    def update(keys: tuple[int, ...], ts: int, operation: str = "upsert") -> None:
        made.write(made.orders(keys, ts), operation, most=2, table__services__enabled="true")

    made.write(made.orders(range(18), 1), "insert")
    for ts in range(2, 6):
        update((ts, ts + 1, ts + 2), ts)
    update((4, 5), 9, "delete")
    update((5, 6), 10)
    update((6, 7), 10)
    compact(made)
    update((6, 7), 11)
    update((6, 8), 12)
    update((6, 8), 12)


def mor_v9_partial(made: MadeTable) -> None:
    """Update some columns of rows again and again by SQL."""
    made.write(made.orders(range(8), 5), "insert")
    for ts, column, keys in ((6, "city", (0, 1, 2)), (7, "qty", (1, 2, 3)), (7, "city", (1, 4))):
        value = "'Rome'" if column == "city" else "9"
        rows = " UNION ALL ".join(f"SELECT {key}L id, {ts}L ts, {value} {column}" for key in keys)
        made.sql(
            f"MERGE INTO {{t}} t USING ({rows}) s ON t.id = s.id "
            f"WHEN MATCHED THEN UPDATE SET t.{column} = s.{column}, t.ts = s.ts"
        )
    made.write(made.orders([2, 5], 8), "upsert")
    compact(made)
    rows = "SELECT 2L id, 9L ts, 'Lima' city UNION ALL SELECT 6L, 9L, NULL"
    made.sql(
        f"MERGE INTO {{t}} t USING ({rows}) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.city = s.city, t.ts = s.ts"
    )


def mor_v9_duplicates(made: MadeTable) -> None:
    """Update and delete keys of which the base file has two rows, by position."""
    duplicates(made)


def mor_v6_duplicates(made: MadeTable) -> None:
    """Update and delete keys of which the base file has two rows, by key."""
    duplicates(made)


def duplicates(made: MadeTable) -> None:
    """Update and delete keys of which the base file has two rows."""
    made.set(parquet__small__file__limit=0)
    made.write(made.orders([*range(6), 1, 2, 3], 5), "insert")
    made.write(made.orders([1, 4], 6), "upsert")
    made.write(made.orders([2], 7), "delete")
    made.write(made.orders([3], 4), "upsert")


def mor_v9_two_orderings_deleted(made: MadeTable) -> None:
    """Delete by two ordering columns, and bring keys back: where the first is equal, the second decides."""
    made.set(datasource__write__precombine__field="ts,qty", parquet__small__file__limit=0)
    schema = "id bigint, ts bigint, city string, qty int, _hoodie_is_deleted boolean"
    made.write(made.frame([(k, 5, "Oslo", 5, False) for k in range(10)], schema), "insert")
    for city, deletes, changed in (
        ("Lima", True, ((5, 4), (5, 6), (4, 9), (5, 5))),
        ("Pune", False, ((5, 5), (5, 5), (5, 4), (5, 5))),
    ):
        rows = [(key, ts, city, qty, deletes) for key, (ts, qty) in enumerate(changed)]
        made.write(made.frame(rows, schema))


def mor_v6_overwrite(made: MadeTable) -> None:
    """Merge by the payload class that was the default before Hudi 1.0: the later row wins."""
    made.set(datasource__write__payload__class="org.apache.hudi.common.model.OverwriteWithLatestAvroPayload")
    event_time(made)


def mor_v6_payload_event(made: MadeTable) -> None:
    """Merge by the payload class that stood for event time before there were modes."""
    made.set(datasource__write__payload__class="org.apache.hudi.common.model.EventTimeAvroPayload")
    partitioned(made, hive_style=False)
    made.write(made.orders(range(12), 5), "insert")
    made.write(made.orders([0, 1], 3), "upsert")
    made.write(made.orders([1, 2], 6), "upsert")
    made.write(made.orders([3], 9), "delete")
    made.write(made.orders([3, 4], 7), "upsert")


def mor_v8_event_time(made: MadeTable) -> None:
    """Merge a table of version 8 by event time, with deletes that are older, equal and newer."""
    event_time(made)


def mor_v9_ordering_nested(made: MadeTable) -> None:
    """Order by a field of a struct, with updates and deletes that are older and newer."""
    made.set(datasource__write__precombine__field="s.ts")
    schema = "id bigint, s struct<ts:bigint,x:string>, city string, qty int, part string"

    def rows(keys: tuple[int, ...] | range, ts: int) -> DataFrame:
        cities = ("Lima", "Oslo")
        return made.frame([(k, (ts, f"x{k}"), cities[k % 2], (k + ts) % 4, "p") for k in keys], schema)

    made.write(rows(range(10), 5), "insert")
    made.write(rows((0, 1), 3), "upsert")
    made.write(rows((1, 2), 6), "upsert")
    made.write(rows((3,), 9), "delete")
    made.write(rows((3, 4), 7), "upsert")


MERGING = (
    mor_v6_overwrite,
    mor_v6_payload_event,
    mor_v8_event_time,
    mor_v9_nonblocking,
    mor_v9_nonblocking_commit_time,
    mor_v9_ordering_moment,
    mor_v9_ordering_int,
    mor_v9_ordering_text,
    mor_v9_ordering_double,
    mor_v9_ordering_decimal,
    mor_v9_ordering_boolean,
    mor_v9_ordering_null,
    mor_v9_ordering_nested,
    mor_v9_log_compaction,
    mor_v9_partial,
    mor_v9_duplicates,
    mor_v6_duplicates,
)
