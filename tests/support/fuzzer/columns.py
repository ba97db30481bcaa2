"""Columns of every type with values at their edges, and each value as text for Spark and for DuckDB."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from support.delta_builder import Action, delta_type
from support.predicates import LONG, Asked, Predicate

UTC = datetime.timezone.utc
MOMENTS = tuple(
    map(
        datetime.datetime.fromisoformat,
        (
            "0001-01-01 00:00:00",
            "1582-10-10 12:00:00",
            "1969-12-31 23:59:59.999999",
            "1970-01-01 00:00:00",
            "2013-01-01 00:00:00",
            "2013-01-01 00:00:00.000001",
            "9999-12-31 23:59:59.999999",
        ),
    )
)
FLOATS = (0.0, -0.0, 1.0, 0.5, -2.25, 0.10000000149011612, float("nan"), float("inf"), float("-inf"))
TEXTS = (
    "",
    "a",
    "A",
    "ä",
    "it's",
    "a b",
    "a\0",
    "%\\",
    "𝄞",
    "\uffff",
    "x" * 256,
    LONG,
    LONG + "y",
    LONG + "z",
)
BYTES = (b"", b"a", b"\0", b"\x7f", b"\x80", b"\xff\xff", b"x" * 256, b"x" * 300, b"x" * 299 + b"y")
INTEGERS = {
    8: (-128, -1, 0, 1, 2, 127),
    16: (-32768, 300, 32767),
    32: (-(2**31), 16777217, 2**31 - 1),
    64: (-(2**63), 2**53, 2**53 + 1, 2**63 - 1),
}

BYTE, SHORT, INT, LONGS = pa.int8(), pa.int16(), pa.int32(), pa.int64()
FLOAT, DOUBLE, BOOLEAN, STRING, BINARY = pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.binary()
DATE, TIMESTAMP, NTZ = pa.date32(), pa.timestamp("us", "UTC"), pa.timestamp("us")
PRICE, WIDER_PRICE, WIDE = pa.decimal128(6, 2), pa.decimal128(12, 4), pa.decimal128(38, 18)

LEAF_TYPES = (
    BYTE,
    SHORT,
    INT,
    LONGS,
    FLOAT,
    DOUBLE,
    BOOLEAN,
    STRING,
    BINARY,
    DATE,
    TIMESTAMP,
    NTZ,
    PRICE,
    WIDE,
)
MAP_TYPES = (
    pa.map_(STRING, INT),
    pa.map_(pa.map_(INT, STRING), DOUBLE),
    pa.map_(pa.list_(INT), pa.map_(DATE, TIMESTAMP)),
)
"""Columns that are read and never asked."""
PARTITION_TYPES = (STRING, STRING, INT, DATE, BOOLEAN, TIMESTAMP, NTZ, PRICE, DOUBLE)

WIDENED = {
    BYTE: (SHORT, INT, LONGS, DOUBLE, pa.decimal128(20, 4)),
    SHORT: (INT, LONGS, DOUBLE, pa.decimal128(12, 2)),
    INT: (LONGS, DOUBLE, pa.decimal128(20, 2)),
    LONGS: (pa.decimal128(20, 0),),
    FLOAT: (DOUBLE,),
    DATE: (NTZ,),
    PRICE: (WIDER_PRICE, pa.decimal128(20, 10)),
}
"""What a column of a type may become; Delta allows these without rewriting files."""

ARRAY_TYPES = tuple(map(pa.list_, LEAF_TYPES))
WIDENED |= {pa.list_(narrow): tuple(map(pa.list_, wide)) for narrow, wide in WIDENED.items()}


def pool(type_: pa.DataType) -> Sequence[Any]:
    """The values that a column of a type takes: few, so that most predicates select something."""
    if pa.types.is_integer(type_):
        return [v for bits, values in INTEGERS.items() if bits <= type_.bit_width for v in values]
    if pa.types.is_floating(type_):
        return FLOATS if type_ == FLOAT else (*FLOATS, 0.1, 1e300, 5e-324, 2.0**53)
    if pa.types.is_map(type_):
        return _maps(type_)
    if pa.types.is_list(type_):
        return _arrays(pool(type_.value_type))
    if pa.types.is_decimal(type_):
        return _decimals(type_.precision, type_.scale)
    if type_ == DATE:
        return sorted({m.date() for m in MOMENTS})
    if type_ == TIMESTAMP:
        return [m.replace(tzinfo=UTC) for m in MOMENTS]
    return {NTZ: MOMENTS, STRING: TEXTS, BINARY: BYTES, BOOLEAN: (True, False)}[type_]


def _maps(type_: pa.DataType) -> list[Any]:
    """No entry, one, and two, the second without a value."""
    keys = _keys(type_.key_type)
    values = pool(type_.item_type)
    return [[], [(keys[0], values[-1])], [(keys[1], values[0]), (keys[0], None)]]


def _arrays(values: Sequence[Any]) -> list[Any]:
    """No element, each alone, NULL alone and beside others, the same twice, and many."""
    alone = [[value] for value in values]
    few = [[values[0], values[-1], values[0]], [None, values[0]], [values[-1], None, values[-1]]]
    return [[], [], [None], *alone, *few, [*values[:4]], [*values[-3:], values[0]]]


def _keys(type_: pa.DataType) -> Sequence[Any]:
    return [[1, None], []] if pa.types.is_list(type_) else pool(type_)


def _decimals(precision: int, scale: int) -> list[Decimal]:
    most = Decimal("9" * (precision - scale) + "." + "9" * scale) if scale else Decimal("9" * precision)
    small = ["0", "1", "-1"] + (["0.50", "-1.50", "9.99"] if scale else [])
    return [Decimal(t) for t in small] + [most, most.copy_negate()]


def partition_pool(type_: pa.DataType) -> list[Any]:
    """Values that may stand in a log as a partition value: finite, without NUL."""
    if type_ == STRING:
        return ["EU", "a b", "x=y%z", "", "__HIVE_DEFAULT_PARTITION__", "ä/1"]
    return [v for v in pool(type_) if not isinstance(v, float) or (v == v and abs(v) < 1e308)][:5]


def partition_text(value: Any) -> str | None:
    """A partition value as Spark writes it into the log."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime.datetime):
        zone = "Z" if value.tzinfo else ""
        sign = "T" if zone else " "
        return value.replace(tzinfo=None).isoformat(sign, "microseconds") + zone
    return str(value)


def in_spark(value: Any, type_: pa.DataType) -> str:
    """A value of a column's type in Spark SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        plain = value == value and abs(value) != float("inf") and type_ == DOUBLE
        return f"{value!r}D" if plain else f"CAST('{value!r}' AS {'FLOAT' if type_ == FLOAT else 'DOUBLE'})"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\0", "\\0")
        return f"'{escaped}'"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, datetime.datetime):
        word = "TIMESTAMP" if value.tzinfo else "TIMESTAMP_NTZ"
        return f"{word}'{_stamp(value)}'"
    return f"DATE'{value.isoformat()}'" if isinstance(value, datetime.date) else str(value)


def in_duckdb(value: Any, type_: pa.DataType) -> str:
    """A value of a column's type in DuckDB's SQL."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return f"CAST('{value!r}' AS {'FLOAT' if type_ == FLOAT else 'DOUBLE'})"
    if isinstance(value, Decimal):
        return f"CAST('{value}' AS DECIMAL({type_.precision},{type_.scale}))"
    if isinstance(value, str):
        parts = ("'" + part.replace("'", "''") + "'" for part in value.split("\0"))
        return "(" + " || chr(0) || ".join(parts) + ")"
    if isinstance(value, bytes):
        return f"from_hex('{value.hex()}')"
    if isinstance(value, datetime.datetime):
        return f"TIMESTAMPTZ '{_stamp(value)}+00'" if value.tzinfo else f"TIMESTAMP '{_stamp(value)}'"
    return f"DATE '{value.isoformat()}'" if isinstance(value, datetime.date) else str(value)


def _stamp(value: datetime.datetime) -> str:
    return value.replace(tzinfo=None).isoformat(" ", "microseconds")


@dataclass(frozen=True)
class Field:
    """A column as a table's metadata has it; a struct has `fields`. `changes`: types it had, as widened."""

    name: str
    type: pa.DataType
    physical: str
    id: int
    fields: tuple[Field, ...] = ()
    changes: tuple[tuple[Any, Any], ...] = ()

    @property
    def logical(self) -> pa.DataType:
        """The Arrow type under the names that a query uses."""
        return pa.struct([(f.name, f.logical) for f in self.fields]) if self.fields else self.type

    def json(self, mapping: str) -> Action:
        """The field in the schema that the log holds."""
        metadata: Action = {}
        if mapping != "none":
            metadata["delta.columnMapping.id"] = self.id
            metadata["delta.columnMapping.physicalName"] = self.physical
        if self.changes:
            metadata["delta.typeChanges"] = [_change(*pair) for pair in self.changes]
        inside = {"type": "struct", "fields": [f.json(mapping) for f in self.fields]}
        kind = inside if self.fields else delta_type(self.type)
        return {"name": self.name, "type": kind, "nullable": True, "metadata": metadata}

    def leaves(self, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Field]]:
        """Name parts and field of every column that is not a struct."""
        for inner in self.fields:
            yield from inner.leaves((*above, self.name))
        if not self.fields:
            yield (*above, self.name), self

    def widened(self, type_: pa.DataType) -> Field:
        return replace(self, type=type_, changes=(*self.changes, (delta_type(self.type), delta_type(type_))))


def _change(old: Any, new: Any) -> Action:
    """A change of a type, or of the type of the elements of an array, as the log has it."""
    if isinstance(old, dict):
        return {"fromType": old["elementType"], "toType": new["elementType"], "fieldPath": "element"}
    return {"fromType": old, "toType": new}


def label(parts: Sequence[str]) -> str:
    """Name parts as Spark SQL, every part quoted."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def asked(fields: Sequence[Field], partitions: Sequence[str]) -> list[Asked]:
    """The columns that a predicate may speak of, with their values; a map is only read."""
    found = []
    for parts, leaf in (pair for field in fields for pair in field.leaves()):
        if pa.types.is_map(leaf.type):
            continue
        known = partition_pool(leaf.type) if leaf.name in partitions else pool(leaf.type)
        duckdb = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
        named = f"({duckdb})" if len(parts) == 1 else _nested(parts)
        if pa.types.is_list(leaf.type):
            found.append(asked_array(label(parts), named, leaf.type, parts))
            continue
        found.append(
            Asked(
                label(parts),
                named,
                list(known),
                partial(in_spark, type_=leaf.type),
                partial(in_duckdb, type_=leaf.type),
                parts,
            )
        )
    return found


def asked_array(spark: str, duckdb: str, type_: pa.DataType, parts: tuple[str, ...]) -> Asked:
    """An array that conditions speak of: what it holds or shares, its elements, how many they are."""
    element = type_.value_type
    values = [*pool(element)]

    def make(rng: random.Random) -> Predicate:
        chosen = rng.sample(values, min(rng.randint(1, 3), len(values)))
        listed = [Predicate(_typed(in_spark(v, element), element), in_duckdb(v, element)) for v in chosen]
        found = _of_array(rng, listed)
        return Predicate(found.spark.replace("{c}", spark), found.duckdb.replace("{c}", duckdb))

    return Asked(spark, duckdb, [], parts=parts, make=make)


def _of_array(rng: random.Random, listed: Sequence[Predicate]) -> Predicate:
    """A condition on the array `{c}` and some values of its elements' type."""
    kind, value = (
        rng.choice(("contains", "contains", "overlap", "overlap", "exists", "size", "null")),
        listed[0],
    )
    if kind == "null":
        return Predicate.both("{c} IS " + rng.choice(("", "NOT ")) + "NULL")
    if kind == "size":
        sign, number = rng.choice(("=", "<>", "<", "<=", ">", ">=")), rng.randint(0, 3)
        return Predicate(f"size({{c}}) {sign} {number}", f"len({{c}}) {sign} {number}")
    if kind == "exists":
        sign = rng.choice(("=", "<>", "<", ">="))
        word, decides, other = rng.choice((("exists", "TRUE", "FALSE"), ("forall", "FALSE", "TRUE")))
        rule = _rule(f"(x {sign} {value.duckdb}) = {decides}", decides, f"(x {sign} {value.duckdb})", other)
        return Predicate(f"{word}({{c}}, x -> x {sign} {value.spark})", rule)
    if kind == "contains":
        spark = f"array_contains({{c}}, {value.spark})"
        return Predicate(spark, _rule(f"x = {value.duckdb}", "TRUE", "x", "FALSE"))
    hole = rng.random() < 0.3
    spark = ", ".join([*(value.spark for value in listed), *["NULL"] * hole])
    among = " OR ".join(f"x = {value.duckdb}" for value in listed)
    unknown = "CAST(NULL AS BOOLEAN)" if hole else "x"
    return Predicate(f"arrays_overlap({{c}}, array({spark}))", _rule(among, "TRUE", unknown, "FALSE"))


def _typed(text: str, element: pa.DataType) -> str:
    """A value in Spark SQL of just the type of the elements: arrays are shared with such alone."""
    if pa.types.is_decimal(element):
        return f"CAST({text} AS DECIMAL({element.precision},{element.scale}))"
    names = {BYTE: "TINYINT", SHORT: "SMALLINT", LONGS: "BIGINT"}
    return f"CAST({text} AS {names[element]})" if element in names else text


def _rule(decides: str, outcome: str, unknown: str, other: str) -> str:
    """What DuckDB says of arrays whose elements `x` decide, or leave unknown where `unknown` is NULL."""
    decided, left = (_some(which) for which in (decides, f"({unknown}) IS NULL"))
    null = "CASE WHEN {c} IS NULL THEN NULL"
    return f"{null} WHEN {decided} THEN {outcome} WHEN {left} THEN NULL ELSE {other} END"


def _some(condition: str) -> str:
    return f"len(list_filter({{c}}, lambda x: {condition})) > 0"


def _nested(parts: Sequence[str]) -> str:
    first, *rest = ('"' + part.replace('"', '""') + '"' for part in parts)
    return f"({first})." + ".".join(rest)


def random_values(rng: random.Random, field: Field, count: int) -> pa.Array:
    """Values of a column; one in eight is NULL. A struct's fields are under their physical names."""
    if field.fields:
        parts = [random_values(rng, inner, count) for inner in field.fields]
        nulls = pa.array([rng.random() < 0.125 for _ in range(count)], pa.bool_())
        return pa.StructArray.from_arrays(parts, names=[f.physical for f in field.fields], mask=nulls)
    taken = pool(field.type)
    values = [None if rng.random() < 0.125 else rng.choice(taken) for _ in range(count)]
    return pa.array(values, field.type)
