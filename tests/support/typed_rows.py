"""One table of every comparable type at its edges, and constants of every kind to compare it with."""

from __future__ import annotations

import datetime
import json
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tailbit.tables.delta.schema import parse_schema
from tailbit.tables.schema import Schema

UTC = datetime.timezone.utc


def _moments(*texts: str) -> list[datetime.datetime]:
    return [datetime.datetime.fromisoformat(t) for t in texts]


_FLOATS = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.5, 0.1, 2.0**53, 16777217.0, 5e-324, 1e300]
_LONG = "x" * 256
_MOMENTS = _moments(
    "1970-01-01 00:00:00",
    "2020-01-01 00:00:00",
    "2020-01-01 00:00:00.000001",
    "2019-12-31 23:59:59.999999",
    "2020-03-29 02:30:00",
    "2020-10-25 01:30:00",
    "0001-01-01 00:00:00",
    "1582-10-10 12:00:00",
    "9999-12-31 23:59:59.999999",
)

VALUES: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "c_byte": ("byte", pa.int8(), [-128, -1, 0, 1, 2, 127]),
    "c_short": ("short", pa.int16(), [-32768, -1, 0, 1, 300, 32767]),
    "c_int": ("integer", pa.int32(), [-(2**31), -5, 0, 1, 2, 16777217, 2**31 - 1]),
    "c_long": ("long", pa.int64(), [-(2**63), -1, 0, 1, 2**53, 2**53 + 1, 2**53 - 1, 2**63 - 1, 2**63 - 512]),
    "c_float": ("float", pa.float32(), [f for f in _FLOATS if f not in (1e300,)]),
    "c_double": ("double", pa.float64(), _FLOATS),
    "c_dec": (
        "decimal(10,2)",
        pa.decimal128(10, 2),
        ["1.50", "-1", "0", "0.1", "99999999.99", "2"],
    ),
    "c_dec0": (
        "decimal(38,0)",
        pa.decimal128(38, 0),
        ["9" * 38, "-" + "9" * 38, 1, 2, 0, 2**53 + 1],
    ),
    "c_dec18": (
        "decimal(38,18)",
        pa.decimal128(38, 18),
        ["9" * 20 + "." + "9" * 18, "1.5", "1." + "0" * 17 + "1", "0.5", "-0.5", "0.1", "1", "2"],
    ),
    "c_dec36": (
        "decimal(38,36)",
        pa.decimal128(38, 36),
        ["99." + "9" * 36, "1." + "0" * 35 + "4", 1, "-1.5"],
    ),
    "c_string": (
        "string",
        pa.string(),
        [
            "",
            "a",
            "A",
            "ä",
            "z",
            "it's",
            "\0",
            "a\0",
            "1",
            "true",
            "\uffff",
            "𝄞",
            _LONG,
            _LONG + "a",
            "%",
            "\\",
        ],
    ),
    "c_binary": (
        "binary",
        pa.binary(),
        [b"", b"a", b"1", b"\0", b"\x7f", b"\x80", b"\xff\xff", _LONG.encode()],
    ),
    "c_date": ("date", pa.date32(), [m.date() for m in _MOMENTS] + [datetime.date(2020, 1, 2)]),
    "c_ts": ("timestamp", pa.timestamp("us", "UTC"), [m.replace(tzinfo=UTC) for m in _MOMENTS]),
    "c_ntz": ("timestamp_ntz", pa.timestamp("us"), _MOMENTS),
    "c_bool": ("boolean", pa.bool_(), [True, False]),
}
"""Column to Delta type, Arrow type and values."""

_LITERALS = r"""
NULL | TRUE | FALSE | 0 | 1 | -1 | 2 | -5 | 300 | 16777217 | 2147483648 | -2147483648 | 9007199254740993
+1 | - -1 | 9223372036854775807 | -9223372036854775808 | 9223372036854775808 | 99999999999999999999 | -(1)
-(-1.5) | (1) | ((-1)) | 1Y | -128Y | 300S | 1L | -1L | 9007199254740992L | -9223372036854775808L | 1y | 1l
+1Y | + 1.5D | - 1.5F | 1.5 | -1.50 | 0.1 | 0.10000000000000000555 | 1. | .5 | -.5 | 2.000 | 99999999.995
1.000000000000000001 | 0.00 | 0.5BD | 1e0BD | 1.5e-3BD | 1bd | 1E+2BD | 1D | 1.5D | 0.1D | 1e0 | 1.e0 | .1e1
1e300 | -1e300 | 5e-324 | 1e-400 | 1.5d | 9007199254740992e0 | 9007199254740993D | 0.1F | 1F | 16777217F
1e10F | 1.17549435E-38F | 1e-46F | 3.4028235e38f | 99999999999999999999999999999999999999
-99999999999999999999999999999999999999 | 0.00000000000000000000000000000000000001
1.0000000000000000000000000000000000004 | 99.99999999999999999999999999999999999
1.00000000000000000000000000000000000049 | CAST('NaN' AS DOUBLE) | CAST('-inf' AS FLOAT)
CAST('Infinity' AS DOUBLE) | CAST(1 AS DECIMAL(38,37)) | CAST('1.5' AS DECIMAL(3,1)) | CAST(NULL AS INT)
CAST(1 AS BIGINT) | CAST('0.1' AS FLOAT) | CAST(1.5 AS INT) | CAST(-1.5D AS INT) | CAST(TRUE AS INT)
CAST(0 AS BOOLEAN) | CAST('a' AS BINARY) | CAST(X'61' AS BINARY) | CAST(1 AS STRING) | CAST(TRUE AS STRING)
CAST('2020-01-01' AS DATE) | CAST(1.25 AS DECIMAL(2,1)) | CAST(2 AS TINYINT)
CAST('2020-01-01' AS TIMESTAMP) | CAST('2020-01-01' AS TIMESTAMP_NTZ) | CAST(1 AS DOUBLE)
CAST(0.1D AS DECIMAL(5,3)) | CAST(DATE'2020-01-01' AS TIMESTAMP)
CAST(TIMESTAMP'2020-01-01 00:00:00.000001' AS DATE) | CAST(-1.25 AS DECIMAL(2,1))
CAST(TIMESTAMP_NTZ'2020-01-01' AS TIMESTAMP) | CAST(TIMESTAMP'2020-01-01' AS TIMESTAMP_NTZ)
CAST(1 AS DECIMAL) | CAST(CAST('1.5' AS DOUBLE) AS FLOAT) | CAST(16777217 AS FLOAT)
CAST('2020-01-01 01' AS TIMESTAMP_NTZ) | '' | 'a' | 'A' | 'ä' | 'z' | 'it''s' | "it's" | 'it\'s' | '\0'
'a\0' | '1' | '+1' | ' 1 ' | '\t1\n' | '-1' | '1.5' | '0.1' | '1e0' | '1d' | '.5' | '5.' | 'NaN' | 'inf'
'-Infinity' | '+INF' | 'true' | 'T' | 'no' | ' YES ' | '0' | '1F' | '1.0e0D' | '9223372036854775807'
'9223372036854775808' | '\uffff' | '\U0001D11E' | '\uD834\uDD1E' | '%' | '\%' | '\_' | '\\' | r'\' | 'a' 'b'
'a' "b" | 'a\
b' | '\a\v\f\n\t\b\r\Z\101\q' | "a""b" | 'x' | 'xy' | R"a" | '\x41' | '\u41' | '\8' | '2020'
'2020-1' | '2020-01-01' | '2020-1-1' | '2020-01-01T' | '2020-01-01x' | '+2020-01-01' | '0001-01-01'
'-0001-01-01' | '12020-01-01' | '2020-01-01 00:00:00' | '2020-01-01T00:00:00.000001'
'2020-01-01 00:00:00.0000019' | '2020-01-01 1' | '2020-01-01 01:30' | '2020-01-01T00:00:00Z'
'2020-01-01 01:00:00+01:00' | '2020-01-01 01:00:00 +1:0' | '2020-01-01 00:00:00UTC'
'2020-01-01 01:00:00 Europe/Paris' | '2020-01-01 00:00:00.' | '2020-02-30' | '1582-10-10'
'2020-01-01 00:00:00GMT+0' | '2020-01-01 01:00:00UTC+1' | '2020-01-01 01:00:00+0100'
'2020-01-01 00:00:00+00' | '9999-12-31 23:59:59.999999' | '24:00' | '2020-01-01 24:00:00' | '0000-01-01'
'290000-01-01 00:00:00' | '2020-01-01 junk' | X'' | X'61' | X'1' | X'80' | X'7F' | X'FFFF' | x'61'
DATE'2020-01-01' | DATE'2020' | DATE '1582-10-10' | date"2020-01-02" | DATE'0001-01-01' | DATE'9999-12-31'
DATE'2020-01-01 12:00' | TIMESTAMP'2020-01-01' | TIMESTAMP'2020-01-01 00:00:00.000001'
TIMESTAMP'2020-01-01 01:00:00+01:00' | TIMESTAMP'2019-12-31 23:59:59.999999' | TIMESTAMP_LTZ'2020-01-01'
TIMESTAMP_NTZ'2020-01-01' | TIMESTAMP_NTZ'2020-01-01 12:00:00' | TIMESTAMP_NTZ'2020-01-01 00:00:00+01:00'
'epoch' | ' EPOCH UTC ' | 'Epoch+01:00' | 'epochs' | DATE'epoch' | TIMESTAMP'epoch -01:00'
TIMESTAMP_NTZ'EPOCH' | -99999999999999999999 | CAST(99999999999999999999 AS DECIMAL(20,0))
coalesce(9223372036854775808) | 7Y | CAST(1 AS INT) | CAST(9223372036854775807D AS BIGINT)
'0000000000000000000000000000000000000000000001'
TIMESTAMP'1582-10-10 12:00:00' | TIMESTAMP'0001-01-01' | timestamp'2020-01-01T00:00:00'
"""

LITERALS = tuple(re.split(r" \| |(?<!\\)\n", _LITERALS.strip("\n")))
"""Constants of every kind as SQL text, malformed ones among them."""


def schema() -> Schema:
    """The schema of the table, as a Delta log says it."""
    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}}
        for name, (type_, _, _) in {"id": ("long", None, None), **VALUES}.items()
    ]
    return parse_schema(json.dumps({"type": "struct", "fields": fields}), [], {}, "typed rows")


def rows() -> pa.Table:
    """Each column's values beside NULL of all others but its neighbours; `id` counts the rows."""
    count = max(len(values) for _, _, values in VALUES.values()) + 1
    columns = {"id": pa.array(range(count), pa.int64())}
    for name, (_, arrow, values) in VALUES.items():
        typed = [Decimal(v) for v in values] if pa.types.is_decimal(arrow) else values
        columns[name] = pa.array([*typed, *[None] * (count - len(typed))], arrow)
    return pa.table(columns)
