"""Values of every type at the edges of its range, and constants at and around those edges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import tailbit
from support.judged import JudgedTable
from support.spark_session import session_settings
from support.verdicts import digest_of


@pytest.fixture
def spark(replayed_spark: Any) -> Any:
    """A session for what is not recorded."""
    return replayed_spark


Columns = dict[str, pa.Array]

WHOLE = {"c_byte": 7, "c_short": 15, "c_int": 31, "c_long": 63}
"""Integer columns and the bits of their range."""

_EDGES = [sign * (2**bits) + around for bits in WHOLE.values() for sign in (-1, 1) for around in (-1, 0, 1)]
WHOLE_CONSTANTS = (
    *map(str, _EDGES),
    *("0", "-1", "-0", "0.5", "-0.5", "127.5", "-128.5", "2147483647.1", "-9223372036854775808.5", "0.0"),
    *("1e2", "-1e2", "1e19", "-1e19", "9223372036854775807D", "127Y", "-128Y", "32767S", "-32768S"),
    *("CAST('NaN' AS DOUBLE)", "CAST('-Infinity' AS FLOAT)", "'-128'", "NULL"),
)

FLOATS = [
    *(math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, 0.1, 0.1 + 2**-56, 16777216.0, 2.0**53, 2.0**63),
    *(
        1e38,
        -1e38,
        3.4028234663852886e38,
        -3.4028234663852886e38,
        1.401298464324817e-45,
        -1.401298464324817e-45,
    ),
    *(1.1754943508222875e-38, 1.1754942106924411e-38),
]
"""Zeros, subnormals and the ends of the range of 32 bits."""
DOUBLES = [*FLOATS, 5e-324, -5e-324, 2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308]
FLOAT_CONSTANTS = (
    *("0", "-0.0D", "0.0F", "0.1", "0.1F", "0.1D", "1", "16777217", "16777217F", "9007199254740993"),
    *("5e-324", "-5e-324", "2e-324", "1e-400", "1.4e-45F", "1e-45F", "1.17549435E-38F", "1.1754942E-38F"),
    *("3.4028234663852886e38", "3.4028234E38F", "1.7976931348623157e308", "-1.7976931348623157E308D"),
    *("CAST('NaN' AS DOUBLE)", "CAST('NaN' AS FLOAT)", "CAST('Infinity' AS DOUBLE)", "CAST('-inf' AS FLOAT)"),
    *("9223372036854775808", "CAST(0.1F AS DOUBLE)", "NULL"),
)

SCALES = (0, 1, 19, 37, 38)


def whole_columns() -> Columns:
    """Every integer type with the ends of its range, the neighbours of these, and zero."""
    types = dict(zip(WHOLE, (pa.int8(), pa.int16(), pa.int32(), pa.int64()), strict=True))
    return {
        name: pa.array([-(2**bits), -(2**bits) + 1, -1, 0, 1, 2**bits - 2, 2**bits - 1, None], types[name])
        for name, bits in WHOLE.items()
    } | {"c_bool": pa.array([True, False, None, True, False, None, True, True])}


def decimal_columns() -> Columns:
    """decimal(38, s) with the ends of its range, the neighbours of zero, and round numbers."""
    found = {}
    for scale in SCALES:
        unscaled = [
            10**38 - 1,
            1 - 10**38,
            10**38 - 2,
            1,
            -1,
            0,
            10**37,
            -(10**37),
            5 * 10 ** max(scale - 1, 0),
        ]
        found[f"d{scale}"] = pa.array(
            [*(_decimal(n, scale) for n in unscaled), None], pa.decimal128(38, scale)
        )
    return found | {"d_small": pa.array([Decimal(9), Decimal(-9), *[None] * 8], pa.decimal128(1, 0))}


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


DECIMAL_CONSTANTS = (
    *(
        "9" * 38,
        "-" + "9" * 38,
        "9" * 37 + "8",
        "9" * 37 + ".9",
        "1" + "0" * 37,
        "0." + "9" * 38,
        "-0." + "9" * 38,
    ),
    *(
        "0." + "0" * 37 + "1",
        "-0." + "0" * 37 + "1",
        "0.1",
        "0.5",
        "-1",
        "0",
        "1",
        "5",
        "9",
        "-9",
        "9.9",
        "10",
    ),
    *("9" * 19 + "." + "9" * 19, "0." + "0" * 18 + "1", "1L", "0.5BD", "0.0", "NULL"),
)


def table_of(spark: Any, path: str, columns: Columns, stored: str = "INT96") -> JudgedTable:
    """A table that Spark writes with these columns, all of them indexed, in one file with a row number.

    `stored`: the Parquet type of timestamps.
    """
    count = max(map(len, columns.values()))
    filled = {name: pa.concat_arrays([a, pa.nulls(count - len(a), a.type)]) for name, a in columns.items()}
    local = [name for name, values in columns.items() if values.type == pa.timestamp("us")]
    rows = pa.table({"id": pa.array(range(count), pa.int32()), **filled})

    def write() -> None:
        frame = spark.createDataFrame(rows)
        frame = frame.withColumns({name: frame[name].cast("timestamp_ntz") for name in local})
        with session_settings(spark, {"spark.sql.parquet.outputTimestampType": stored}):
            frame.coalesce(1).write.format("delta").save(path)

    table = JudgedTable(spark, path, list(columns))
    table.write(["rows", digest_of(rows), stored], write)
    table.follow()
    return table


def compared(
    columns: Sequence[str], constants: Sequence[str], signs: Sequence[str] = ("=", "<")
) -> list[str]:
    """Every column against every constant."""
    return [f"{column} {sign} {constant}" for column in columns for constant in constants for sign in signs]


DAYS = [-719_162, -719_163, -141_428, -141_427, -1, 0, 2_932_896, 2_932_897, 4_000_000]
"""0001-01-01 and the day before, the last Julian and first Gregorian day, 9999-12-31 and after."""
INSTANTS = [
    -(2**63),
    1 - 2**63,
    -188_363_404_800_000_000,
    -62_135_596_800_000_000,
    -12_219_292_800_000_001,
    -1,
    0,
    1,
]
INSTANTS += [10**15 + 999, 1_585_445_400_000_000, 1_603_589_400_000_000, 253_402_300_799_999_999]
INSTANTS += [253_402_300_800_000_000, 9_000_000_000_000_000_000, 2**63 - 1]
"""The ends, the ends of Python's calendar, the epoch, 1582, and hours that Paris skipped and had twice."""

DATE_CONSTANTS = (
    *("DATE'0001-01-01'", "DATE'0000-12-31'", "DATE'-0001-01-01'", "DATE'1582-10-04'", "DATE'1582-10-10'"),
    *(
        "DATE'1582-10-15'",
        "DATE'9999-12-31'",
        "DATE'+10000-01-01'",
        "DATE'-290307-01-01'",
        "DATE'1970-01-01'",
    ),
    *("'1969-12-31'", "'294246-12-31'", "TIMESTAMP'1970-01-01 00:00:00.000001'", "NULL"),
    *("TIMESTAMP'9999-12-31 23:59:59.999999'", "TIMESTAMP_NTZ'0001-01-01'", "'+12921-08-26'"),
)
TIME_CONSTANTS = (
    *(
        "'1970-01-01'",
        "'1970-01-01 00:00:00.000001'",
        "'1969-12-31 23:59:59.999999'",
        "'9999-12-31 23:59:59.999999'",
    ),
    *(
        "'+10000-01-01'",
        "'0001-01-01 00:00:00'",
        "'1582-10-15'",
        "'1582-10-14 23:59:59.999999'",
        "'294247-01-10'",
    ),
    *(
        "'2001-09-09 01:46:40.000999'",
        "'2001-09-09 01:46:40.0009999'",
        "'2020-03-29 02:30:00'",
        "'2020-03-29 01:30'",
    ),
    *(
        "'2020-10-25 01:30:00Z'",
        "DATE'1970-01-01'",
        "DATE'9999-12-31'",
        "DATE'+10000-01-01'",
        "DATE'0000-12-31'",
    ),
)
SIGNS = ("=", "<", ">=")


def time_columns() -> Columns:
    """Dates and times at the ends of what Spark holds, and where calendars and clocks have seams."""
    return {
        "day": pa.array([*DAYS, None], pa.int32()).cast(pa.date32()),
        "far": pa.array([-(2**31), 2**31 - 1, 0], pa.int32()).cast(pa.date32()),
        "ts": pa.array(INSTANTS, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "ntz": pa.array([*INSTANTS, None], pa.int64()).cast(pa.timestamp("us")),
    }


@pytest.mark.parametrize(("stored", "first", "last"), [("INT96", 2, -1), ("TIMESTAMP_MICROS", 0, None)])
@pytest.mark.supports("Types", "date", "exact", note="before 1582 and after 9999, too")
@pytest.mark.supports(
    "Types", "timestamp, timestamp_ntz", "exact", note="to the microsecond, in any session time zone"
)
def test_dates_and_times_are_exact_at_their_edges(
    spark: Any, table_path: str, stored: str, first: int, last: int | None
) -> None:
    columns = time_columns()
    columns["ts"] = columns["ts"][first:last]
    table = table_of(spark, table_path, columns, stored)
    asked = [*compared(["day"], DATE_CONSTANTS, SIGNS), "far < '0001-01-01'", "far = DATE'+5881580-07-11'"]
    asked += [*compared(["ts", "ntz"], TIME_CONSTANTS, SIGNS)]
    table.judge(
        *asked, "day = ntz", "day < ntz", "ts IN ('1970-01-01', '9999-12-31 23:59:59.999999')", rows=False
    )
    table.judge_facets("day", "far", "ts", "ntz")
    rows = tailbit.open(table_path).where().read()
    theirs = spark.read.format("delta").load(table_path).orderBy("id").toArrow()
    assert rows.sort_by("id").cast(theirs.schema).equals(theirs)


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/St_Johns", "+05:45"])
@pytest.mark.supports(
    "Types", "timestamp, timestamp_ntz", "exact", note="to the microsecond, in any session time zone"
)
def test_the_session_time_zone_decides_what_a_text_or_day_means(
    spark: Any, table_path: str, zone: str
) -> None:
    """Clocks went back or ahead at some of the times; `ts` spans them hour by hour."""
    seams = [1_585_440_000, 1_603_580_400, 1_552_188_600, -1_500_000_000, -3_000_000_000]
    hours = [1_000_000 * (seam + 900 * n) for seam in seams for n in range(-8, 9)]
    columns = {"ts": pa.array([*hours, *INSTANTS[2:-1]], pa.int64()).cast(pa.timestamp("us", "UTC"))}
    columns["day"] = pa.array([18_350, 18_560, -1, 2_932_897, None], pa.int32()).cast(pa.date32())
    table = table_of(spark, table_path, columns)
    texts = (
        "2020-03-29 02:30:00",
        "2020-10-25 02:30:00",
        "2020-10-24 22:30:00",
        "2019-03-10 02:30:00",
        "1874-12-08",
    )
    asked = [f"ts {sign} '{text}'" for text in texts for sign in SIGNS]
    asked += [
        f"ts {sign} {kind}'{text[:10]}'" for text in texts for sign in SIGNS for kind in ("DATE", "TIMESTAMP")
    ]
    asked += [f"day {sign} TIMESTAMP'{text}'" for text in texts for sign in SIGNS]
    table.judge(*asked, "ts = '2020-03-29 02:30:00Z'", "ts < '+10000-01-01'", zone=zone, rows=False)


@pytest.mark.supports("Types", "tinyint, smallint, int, bigint", "exact")
@pytest.mark.supports("Types", "boolean", "exact")
def test_whole_numbers_and_booleans_are_exact_at_their_edges(spark: Any, table_path: str) -> None:
    table = table_of(spark, table_path, whole_columns())
    lists = [f"{c} {word} (-128, 127, 32768)" for c in WHOLE for word in ("IN", "NOT IN")]
    flags = (
        "c_bool",
        "NOT c_bool",
        "c_bool < TRUE",
        "c_bool IN (FALSE, NULL)",
        "c_bool IS NOT TRUE",
        "c_bool > 'f'",
    )
    table.judge(*compared(list(WHOLE), WHOLE_CONSTANTS), *lists, *flags)
    table.judge_facets(*whole_columns())


@pytest.mark.supports("Types", "float, double", "exact", note="NaN, -0.0, infinities, subnormals")
def test_floating_point_is_exact_at_its_edges(spark: Any, table_path: str) -> None:
    columns = {"f": pa.array([*FLOATS, None], pa.float32()), "d": pa.array([*DOUBLES, None], pa.float64())}
    table = table_of(spark, table_path, columns)
    nan = ("d > 1e308", "f > CAST('Infinity' AS FLOAT)", "NOT (d < CAST('NaN' AS DOUBLE))", "f = d", "f < d")
    lists = ("d IN (0, CAST('NaN' AS DOUBLE))", "f NOT IN (0.1F, 0)", "f IN (0.1)", "d IN (0.1F, 1)")
    table.judge(*compared(["f", "d"], FLOAT_CONSTANTS, ("=", "<", ">=")), *nan, *lists)
    table.judge_facets("f", "d")


@pytest.mark.supports("Types", "decimal(p, s)", "exact", note="38 digits, both signs")
def test_decimals_are_exact_at_their_edges(spark: Any, table_path: str) -> None:
    table = table_of(spark, table_path, decimal_columns())
    lists = [f"d{scale} IN (0, 1, 0.5)" for scale in SCALES] + ["d_small < d0", "d_small = d19"]
    table.judge(*compared(list(decimal_columns()), DECIMAL_CONSTANTS), *lists)
    table.judge_facets(*decimal_columns())


PREFIX = "x" * 256
"""The part of a text that its key holds as it is."""
HUGE = "y" * (1 << 20)
TEXTS = [
    *(
        "",
        " ",
        "\0",
        "a",
        "a\0",
        "a\0b",
        "A",
        "aa",
        "ä",
        "a\u0308",
        "\ud7ff",
        "\uffff",
        "\ue000",
        "𐀀",
        "𝄞",
        "𝄞\0",
    ),
    *(
        PREFIX[1:],
        PREFIX,
        PREFIX + "a",
        PREFIX + "b",
        PREFIX + "a" * 9,
        PREFIX + "\0",
        PREFIX + "é",
        PREFIX * 2,
    ),
    *(
        PREFIX[1:] + "é",
        PREFIX[1:] + "è",
        PREFIX[1:] + "éa",
        HUGE,
        HUGE + "z",
        HUGE[1:],
        "NULL",
        "%",
        "_",
        "\\",
    ),
]
BINARIES = [
    *(
        b"",
        b"\0",
        b"\0\0",
        b"\xff",
        b"\xff\xfe",
        b"\xc3\x28",
        b"\xed\xa0\x80",
        b"\xf0\x9d\x84",
        b"\x80",
        b"\x7f",
    ),
    *(b"\xff" * 255, b"\xff" * 256, b"\xff" * 257, b"\xff" * 256 + b"\0", b"a" * 256 + b"\x80", b"a" * 300),
    *(HUGE.encode(), HUGE.encode() + b"\xff"),
]


def _hex(value: bytes) -> str:
    return f"X'{value.hex()}'"


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0") + "'"


@pytest.mark.supports("Types", "string", "exact", note="NUL, supplementary characters, 1 MB")
@pytest.mark.supports("Types", "binary", "exact", note="of any bytes, 1 MB")
@pytest.mark.supports(
    "Types", "string, binary", "exact", note="alike in their first 256 bytes: such rows are read"
)
def test_texts_and_bytes_are_exact_whatever_their_length_and_characters(spark: Any, table_path: str) -> None:
    columns = {"s": pa.array([*TEXTS, None], pa.string()), "b": pa.array([*BINARIES, None], pa.binary())}
    table = table_of(spark, table_path, columns)
    texts = [_text(text) for text in TEXTS if len(text) < 1000]
    data = [_hex(value) for value in BINARIES if len(value) < 1000]
    long = [f"s {sign} {_text(text)}" for text in (HUGE, HUGE + "a") for sign in ("=", "<", ">=")]
    lists = [f"s IN ({', '.join(texts[8:24])})", f"s NOT IN ({', '.join(texts[16:])}, {_text(HUGE)})"]
    lists += [f"b IN ({', '.join(data[3:])})", f"b BETWEEN {data[11]} AND {data[13]}", "s = b", "s < b"]
    bounds = [f"s > {_text(PREFIX)} AND s < {_text(PREFIX + 'b')}", f"s = X'{PREFIX.encode().hex()}'"]
    table.judge(*compared(["s"], texts, SIGNS), *compared(["b"], data, SIGNS), *long, *lists, *bounds)
    table.judge_facets("s", "b")


@pytest.mark.supports("Types", "string", "exact", note="of bytes that are no UTF-8")
def test_strings_of_invalid_utf_8_are_compared_by_their_bytes(spark: Any, table_path: str) -> None:
    table = JudgedTable(spark, table_path, ["s"])
    table.sql(
        "create table {t} using delta as select id, cast(raw as string) s from values (1, X'C328'),"
        " (2, X'FF'), (3, X'61FF'), (4, X'EDA080'), (5, X'61'), (6, X'C3A4') as v(id, raw)"
    )
    asked = [
        f"s {sign} {constant}" for sign in SIGNS for constant in ("'a'", "'ä'", "X'C328'", "X'FF'", "'z'")
    ]
    table.judge(*asked, "s IN ('a', 'ä')", rows=False)
    rows = tailbit.open(table_path).where().read().column("s").cast(pa.binary())
    assert sorted(rows.to_pylist()) == [b"a", b"a\xff", b"\xc3\x28", b"\xc3\xa4", b"\xed\xa0\x80", b"\xff"]
