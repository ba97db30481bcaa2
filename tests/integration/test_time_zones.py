"""Every named time zone as the JVM under Spark has it: rules, local times, casts, and names."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest

from support.jvm_zones import jvm_rules, jvm_zone_data, known_to_spark, zone_data, zone_names
from support.truth import matches
from support.zoned import COLUMNS, DAY, SECOND, edges, zoned_predicates, zoned_rows
from tailbit.errors import PredicateError
from tailbit.index.predicate.tree import is_null, negate
from tailbit.index.sql.bind import bind
from tailbit.index.values.casts import cast
from tailbit.index.values.literals import Literal
from tailbit.tables.model import Column, DataType
from tailbit.tables.schema import Schema
from tailbit.tables.zone_rules import ZoneRules, zone_rules
from tailbit.tables.zones import fixed_offset, to_instant, to_local

SEED, ZONES, ASKED = int(os.environ.get("TAILBIT_SEED", "1")), 12, 40
"""Of the random predicates: how many zones a run draws, and how many predicates in each."""


@pytest.fixture(scope="module")
def of_the_jvm(spark: Any) -> dict[str, ZoneRules]:
    """The rules of the JVM, which must have the release of time zone data that tailbit ships."""
    if jvm_zone_data(spark._sc._gateway).split(", ")[1] != zone_data().split(", ")[1]:
        pytest.skip(f"the JVM has other time zone data than {zone_data()}: laws have changed between them")
    return jvm_rules(spark._sc._gateway)


def test_the_rules_of_every_zone_are_those_of_the_jvm(of_the_jvm: dict[str, ZoneRules]) -> None:
    assert {name: zone_rules(name) for name in zone_names()} == of_the_jvm


def test_local_times_of_every_zone_are_the_instants_that_spark_says(
    spark: Any, of_the_jvm: dict[str, ZoneRules]
) -> None:
    asked = [(name, micros) for name, rules in of_the_jvm.items() for micros in edges(rules)]
    names, times = zip(*asked, strict=True)
    table = pa.table({"zone": names, "micros": pa.array(times, pa.int64()).cast(pa.timestamp("us"))})
    asking = spark.createDataFrame(table).selectExpr(
        "micros", "convert_timezone(zone, 'UTC', micros) i", "convert_timezone('UTC', zone, micros) l"
    )
    found = [column.cast(pa.int64()).to_pylist() for column in asking.toArrow().columns]
    assert len(found[0]) > 200_000
    ours = [(to_instant(micros, zone), to_local(micros, zone)) for zone, micros in asked]
    wrong = [
        (zone, micros, instant, mine)
        for (zone, micros), instant, mine in zip(asked, zip(*found[1:], strict=True), ours, strict=True)
        if instant != mine
    ]
    assert wrong == []


def over_midnight(rules: ZoneRules) -> bool:
    """Whether clocks ever jumped over midnight."""
    gaps = ((c.instant + c.before, c.instant + c.after) for c in rules.changes if c.after > c.before)
    return any(-(-begin // 86_400) * 86_400 < end and begin % 86_400 for begin, end in gaps)


def drawn(of_the_jvm: dict[str, ZoneRules]) -> Iterator[str]:
    """One zone of each rules that jump over midnight, the zones whose rules differ most, and some others."""
    jumping = {rules: name for name, rules in of_the_jvm.items() if over_midnight(rules)}
    assert "America/Toronto" in {name for name in of_the_jvm if of_the_jvm[name] in jumping}
    yield from jumping.values()
    yield from (
        "Europe/Oslo",
        "Africa/Dakar",
        "WET",
        "EET",
        "CET",
        "MET",
        "EST5EDT",
        "PST",
        "EST",
        "Etc/GMT+5",
    )
    yield from random.Random(1).sample(sorted(of_the_jvm), 20)


CASTS = (
    ("ntz", "timestamp_ntz", "TIMESTAMP", "timestamp"),
    ("CAST(ntz AS DATE)", "date", "TIMESTAMP", "timestamp"),
    ("CAST(ntz AS STRING)", "string", "TIMESTAMP", "timestamp"),
    ("ts", "timestamp", "DATE", "date"),
    ("ts", "timestamp", "TIMESTAMP_NTZ", "timestamp_ntz"),
)


def test_casts_between_dates_and_times_in_zones_are_those_of_spark(
    spark: Any, of_the_jvm: dict[str, ZoneRules]
) -> None:
    frames, asked = [], []
    for zone in drawn(of_the_jvm):
        recent = [m for m in edges(of_the_jvm[zone]) if abs(m) < 10**16]
        micros = random.Random(zone).sample(recent, min(len(recent), 120))
        midnights = [m // DAY * DAY for m in recent]
        frame, count = cast_in_spark(
            spark, zone, sorted({*micros, *midnights, *(m + DAY for m in midnights)})
        )
        frames.append(frame)
        asked += [zone] * count
    table = reduce(lambda all_, frame: all_.union(frame), frames).toArrow()
    found = list(zip(*(plain(column) for column in table.columns), strict=True))
    wrong = []
    for zone, row in zip(asked, found, strict=True):
        for n, (_, source, _, target) in enumerate(CASTS):
            given, expected = row[2 * n : 2 * n + 2]
            value = given.encode() if isinstance(given, str) else given
            ours = cast(Literal(DataType(source), value), DataType(target), zone).value
            wrong += [] if ours == expected else [(zone, source, given, target, expected, ours)]
    assert wrong == []


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Times in microseconds and dates in days since 1970, texts as they are."""
    width = {pa.date32(): pa.int32(), pa.string(): pa.string()}.get(column.type, pa.int64())
    return list(column.cast(width).to_pylist())


def cast_in_spark(spark: Any, zone: str, micros: list[int]) -> tuple[Any, int]:
    """What each of the casts takes and gives in a session of the zone, one row a time."""
    times = pa.array(micros, pa.int64())
    table = pa.table({"ntz": times.cast(pa.timestamp("us")), "ts": times.cast(pa.timestamp("us", "UTC"))})
    frame = spark.createDataFrame(table, "ntz timestamp_ntz, ts timestamp")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        columns = []
        for n, (given, _, sql, _) in enumerate(CASTS):
            columns += [f"{given} AS given{n}", f"CAST({given} AS {sql}) AS cast{n}"]
        return frame.selectExpr(*columns), len(micros)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


SPELLINGS = (
    *(
        "",
        " ",
        "+",
        "-",
        "Z",
        "z",
        "0",
        "8",
        "UTC",
        "GMT",
        "UT",
        "utc",
        "Utc",
        " UTC",
        "UTC ",
        "UTC+",
        "GMT0",
        "UT0",
    ),
    *("UTC0", "Etc/UTC", "Zulu", "PST", "EST", "MST", "HST", "ROC", "ROK", "CET", "EST5EDT", "SystemV/PST8"),
    *("Factory", "localtime", "posixrules", "right/UTC", "posix/UTC", "europe/oslo", "Europe/", "Mars/Base"),
    *(
        "../etc/passwd",
        "Europe/Oslo;",
        "Europe/Oslo Europe/Paris",
        "Europe/Oslo\t",
        "#",
        "OpenJDK",
        "Written",
    ),
)


def spellings(rng: random.Random) -> Iterator[str]:
    """Offsets right and wrong, with and without a prefix."""
    numbers = ("", "0", "5", "9", "00", "05", "12", "18", "19", "59", "60", "99", "123", "٣")
    for prefix in ("", "UTC", "GMT", "UT", "Z", "PST"):
        for _ in range(400):
            parts = [rng.choice(numbers) + rng.choice(("", ":", ":")) for _ in range(rng.randint(1, 4))]
            yield prefix + rng.choice("+-") + "".join(parts)


def test_the_zones_that_are_known_are_those_that_spark_knows(spark: Any) -> None:
    asked = [*SPELLINGS, *spellings(random.Random(1))]

    def ours(name: str) -> str:
        try:
            fixed = fixed_offset(name)
        except ValueError:
            return "unknown"
        return "changes" if fixed is None else str(fixed // SECOND)

    theirs = known_to_spark(spark._sc._gateway, asked)
    assert [(name, ours(name)) for name in asked] == list(zip(asked, theirs, strict=True))
    assert len(set(theirs)) > 20


SUFFIXES = (
    "PST",
    " PST",
    "CET",
    " Europe/Oslo",
    "UTC",
    " +8:5",
    "-08",
    " utc",
    " right/UTC",
    " Mars/Base",
    "\x7fPST",
)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_zone_in_a_text_is_read_as_spark_reads_it(spark: Any, suffix: str) -> None:
    text = f"1919-03-31 00:30:00{suffix}"
    for kind in ("timestamp", "timestamp_ntz"):
        expected = plain(spark.sql(f"SELECT try_cast('{text}' AS {kind})").toArrow().column(0))[0]
        try:
            found = cast(Literal(DataType("string"), text.encode()), DataType(kind), "UTC").value
        except ValueError:
            found = None
        assert found == expected, kind


TYPES = {"ts": "timestamp", "ntz": "timestamp_ntz", "day": "date"}
SCHEMA = Schema(tuple(Column((name,), (name,), DataType(TYPES[name])) for name in COLUMNS))


EXCLUDED = "spark.sql.optimizer.excludedRules"


def truth(text: str, rows: pa.Table, zone: str) -> list[bool | None] | None:
    """Our truth of each row; None where the predicate is refused."""
    try:
        node = bind(text, SCHEMA, zone)
    except PredicateError:
        return None
    true, _, null = (matches(n, rows, {}).tolist() for n in (node, negate(node), is_null(node)))
    return [None if unknown else yes for yes, unknown in zip(true, null, strict=True)]


def in_zone(spark: Any, zone: str, rows: pa.Table, predicates: list[str]) -> Any:
    """The truth of predicates in a session of a zone, as a frame: an array of booleans for each row."""
    frame = spark.createDataFrame(rows, "ts timestamp, ntz timestamp_ntz, day date")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        return frame.selectExpr(f"array({', '.join(f'({text})' for text in predicates)}) AS truth")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.fixture
def optimised(spark: Any) -> Iterator[Any]:
    """Spark as it reads tables: rows that it holds itself would be judged before the optimiser is asked."""
    spark.conf.set(EXCLUDED, "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation")
    yield spark
    spark.conf.unset(EXCLUDED)


def test_random_predicates_in_random_zones_are_true_where_spark_says(
    optimised: Any, of_the_jvm: dict[str, ZoneRules]
) -> None:
    spark, rng = optimised, random.Random(SEED)
    ours, frames, refused = [], [], 0
    for zone in rng.sample(sorted(of_the_jvm), ZONES):
        rows = zoned_rows(rng, zone, 40)
        found = {t: truth(t, rows, zone) for t in zoned_predicates(rng, zone, sorted(of_the_jvm), ASKED)}
        refused += sum(t is None for t in found.values())
        known = {text: t for text, t in found.items() if t is not None}
        ours += [(zone, list(known), [t[row] for t in known.values()]) for row in range(len(rows))]
        frames.append(in_zone(spark, zone, rows, list(known)))
    theirs = reduce(lambda all_, frame: all_.union(frame), frames).toArrow()["truth"].to_pylist()
    wrong = [
        (zone, text, mine, said)
        for (zone, texts, row), judged in zip(ours, theirs, strict=True)
        for text, mine, said in zip(texts, row, judged, strict=True)
        if mine != said
    ]
    assert wrong[:20] == []
    assert refused < ZONES * ASKED // 2
