"""Arrays, maps and structs of edge values, and what is asked of them: the nested part of `function_cells`."""

# ruff: noqa: E501

from __future__ import annotations

import datetime
import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

_NAN = math.nan
_D = datetime.date


def _array(element: Any) -> dict[str, Any]:
    return {"type": "array", "elementType": element, "containsNull": True}


def _map(key: str, value: Any) -> dict[str, Any]:
    return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}


def _struct(**fields: Any) -> dict[str, Any]:
    listed = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in fields.items()
    ]
    return {"type": "struct", "fields": listed}


_ITEM = pa.struct([("price", pa.float64()), ("n", pa.string()), ("k", pa.list_(pa.int32()))])
_STRUCT = pa.struct([("city", pa.string()), ("zip", pa.int32()), ("labels", pa.list_(pa.string()))])

NESTED_COLUMNS: dict[str, tuple[Any, pa.DataType, list[Any]]] = {
    "tags": (
        _array("string"),
        pa.list_(pa.string()),
        [["a", "abc"], [], [None], ["a", None], None, ["", " ", "äÖß"], ["x", "x"], [None, None, "b"], ["ABC", "a%c", "𝄞x"], ["1"], ["zz", "y"]],
    ),
    "ai": (
        _array("integer"),
        pa.list_(pa.int32()),
        [[1, 2, 3], [], [None], None, [-(2**31), 2**31 - 1], [0], [0, None, 7], [7, 7], [5, -5, 4, 9], [300], [None, 1]],
    ),
    "al": (_array("long"), pa.list_(pa.int64()), [[2**53 + 1], [-(2**63), 2**63 - 1], None, [], [1, None], [0, 3]]),
    "ad": (
        _array("double"),
        pa.list_(pa.float64()),
        [[_NAN, 1.0], [0.0], [-0.0, None], None, [], [math.inf, -math.inf], [_NAN], [2.5, -2.5, 1e300], [-0.0, 0.0], [0.0, -0.0]],
    ),
    "af": (_array("float"), pa.list_(pa.float32()), [[_NAN, 1.5], [-0.0], [], None, [None, 16777216.0]]),
    "ap": (
        _array("decimal(10,2)"),
        pa.list_(pa.decimal128(10, 2)),
        [[Decimal("1.50")], [Decimal("2.00"), None], None, [], [Decimal("-99999999.99"), Decimal("0.05")], [Decimal(1)]],
    ),
    "adt": (_array("date"), pa.list_(pa.date32()), [[_D(2020, 2, 29)], [_D(1970, 1, 1), None], None, [], [_D(1, 1, 1), _D(9999, 12, 31)]]),
    "abo": (_array("boolean"), pa.list_(pa.bool_()), [[True], [False, None], None, [], [True, False]]),
    "ax": (_array("binary"), pa.list_(pa.binary()), [[b"a", b""], [b"\xff\x00", None], None, []]),
    "aa": (
        _array(_array("integer")),
        pa.list_(pa.list_(pa.int32())),
        [[[1, 2], [3]], [None, []], None, [], [[7]], [[None], [0, 1, 2]]],
    ),
    "items": (
        _array(_struct(price="double", n="string", k=_array("integer"))),
        pa.list_(_ITEM),
        [
            [{"price": 1.5, "n": "a", "k": [1]}], [None, {"price": None, "n": "b", "k": None}], None, [],
            [{"price": 9.0, "n": None, "k": []}, {"price": -1.0, "n": "abc", "k": [None, 5]}], [{"price": _NAN, "n": "", "k": [0]}],
        ],
    ),
    "m": (
        _map("string", "string"),
        pa.map_(pa.string(), pa.string()),
        [[("k", "v")], [("k", None), ("j", "abc")], None, [], [("", "1"), ("a", "a")], [("K", "x"), ("k", "")]],
    ),
    "mi": (
        _map("integer", "double"),
        pa.map_(pa.int32(), pa.float64()),
        [[(1, 2.5)], [(0, None), (1, -0.0)], None, [], [(-7, _NAN), (65, 1.0)], [(2**31 - 1, 0.5)]],
    ),
    "mt": (
        _map("string", _array("integer")),
        pa.map_(pa.string(), pa.list_(pa.int32())),
        [[("a", [1, 2])], [("a", None), ("b", [])], None, [], [("a", [None])]],
    ),
    "j": (
        "string",
        pa.string(),
        [
            '{"a": 1, "b": {"c": [1, 2.50, "x\\u0001"], "z":null}, "d": null, "e": true}', '{"a":"te\\"xt","u":"\\u00e4\\n"}',
            "[1, [2, 3], null]", "not json", "", '{"a":{"b":-0,"a":1e2}, "a": 2}', '{"a":null,"a":3,"f":[{"g":"/\\/\\t"}]}', " 7 ", '"s"', '{"a": 1',
            '{"b":{"k":"äß\\\\","l":12345678901234567890,"c":[]},"a":-1.5}', '{"a":0.1,"b":{"c":[10.0,100]}} tail', "null", "{}", "[null]",
        ],
    ),
    "st": (
        _struct(city="string", zip="integer", labels=_array("string")),
        _STRUCT,
        [
            {"city": "abc", "zip": 1, "labels": ["a", "b"]}, None, {"city": None, "zip": 2, "labels": None},
            {"city": "a", "zip": None, "labels": []}, {"city": "", "zip": -7, "labels": [None]},
        ],
    ),
}  # fmt: skip
"""Column to Delta type, Arrow type and edge values, as `function_cells.COLUMNS`."""


def fields_of(structs: pa.Array, name: str) -> dict[str, pa.Array]:
    """The fields of a struct column as columns of their own, by the path that a predicate knows them by."""
    return {f"{name}.{field.name}": pc.struct_field(structs, [at]) for at, field in enumerate(structs.type)}


_TEXT = """
array_contains: array_contains(tags, {'a' | 'zz' | '' | s | n | CAST(NULL AS STRING) | upper(s) | 1})
    array_contains(ai, {1 | 7 | i | l | b | 1L | 1.0 | 2.5 | 1D | 300S | p | d | '1' | NULL})
    array_contains(ad, {0 | 0D | -0.0D | CAST('NaN' AS DOUBLE) | 1 | 2.5 | d | i | f})
    array_contains(ap, {1.5 | 2 | 0.05 | p | q | 1D | 2L}) ; array_contains(al, {9007199254740993 | i | d})
    array_contains(adt, {DATE'2020-02-29' | dt | ts}) ; array_contains(abo, {bo | FALSE}) ; array_contains(ax, {X'61' | x})
    array_contains(af, 1.5F) ; array_contains(items.n, 'a') ; array_contains(items.price, 9) ; array_contains(st.labels, 'a')
    array_contains(map_keys(m), 'k') ; array_contains(map_values(mi), 0) ; array_contains(array(1, 2, i), 1)
    array_contains(array('a', s), n) ; array_contains(aa[0], 1) ; NOT array_contains(tags, 'a')
    array_contains(tags, 'a') IS NULL ; array_contains(ai, 10 % i)
arrays_overlap: arrays_overlap(tags, array({'a', 'b' | 'nothing' | | NULL | 'a', NULL | s | s, n | 'b', upper(s)}))
    arrays_overlap(tags, {tags | st.labels}) ; arrays_overlap(ai, {array(1, 7) | array(7L) | al})
    arrays_overlap(ad, array({0 | 0D | -0.0D | d | CAST('NaN' AS DOUBLE)})) ; arrays_overlap(ap, array(1.50BD, 2.00))
    arrays_overlap(array('a'), tags) ; arrays_overlap(adt, array(dt)) ; arrays_overlap(ax, array(x)) ; arrays_overlap(abo, array(bo))
    arrays_overlap(items.n, tags) ; arrays_overlap(map_keys(m), tags) ; arrays_overlap(tags, map_values(m)) ; arrays_overlap(aa[0], ai)
size: size({tags | ai | aa | items | items.price | st.labels | NULL | map_keys(m) | m | mt})
cardinality: cardinality({tags | ai | aa | items | items.price | st.labels | NULL | map_keys(m) | m | mt})
array_size: array_size({tags | ai | aa | items | items.price | st.labels | NULL | map_keys(m)})
element_at: element_at(tags, {1 | -1 | 2 | -3 | 0 | b | sh | 9}) ; element_at(aa, 1)[0] ; element_at(m, {'k' | s})
    element_at(mi, {1 | i | b | 1L}) ; element_at(mt, 'a')[0] ; element_at(items, 1).n ; element_at(items, 1).price
    element_at(st.labels, 1) ; size(element_at(aa, -1)) ; element_at(ai, b % i)
try_element_at: try_element_at(tags, {1 | -1 | 9 | 0 | b | -9}) ; try_element_at(m, 'k') ; try_element_at(mi, 65)
get: get(tags, {0 | 1 | 2 | -1 | i | b | l | NULL}) ; get(ai, 1) + get(ai, 0) ; get(aa, 0)[0] ; get(items, 0).k[0]
array[n]: tags[{0 | 1 | 2 | -1 | i | b | l | NULL}] ; ai[0] ; ad[0] ; ap[1] ; adt[0] ; abo[0] ; ax[0] ; aa[0][0] ; size(aa[1])
    items[0].price ; items[0]['n'] ; items.price[0] ; items.n[1] ; items.k[0][0] ; items[0].k[0] ; upper(tags[0]) ; ai[0] + 1
    coalesce(ai[1], -1) ; if(size(ai) > 1, ai[1], 0) ; tags[0] IS NULL ; 10 / ai[0] ; tags[1 % i] ; st.labels[0]
    CASE WHEN size(tags) > 1 THEN tags[1] END
map[key]: m[{'k' | 'K' | '' | s | n | NULL | 1 | i | 'a'}] ; mi[{1 | '1' | i | b | 1L | 4294967297L | 1.0 | 'a' | n | d}]
    m.k ; m.j ; length(m.k) ; mt.a[0] ; mt['a'][0] ; size(mt['a']) ; mi[0] + 1 ; m['k'] IS NULL ; coalesce(m['k'], 'none')
struct.field: st.city ; st.zip ; st['city'] ; ST.City ; st.zip + 1 ; upper(st.city) ; st.city IS NULL ; items[0].n
IS NULL of arrays and maps: tags IS NULL ; m IS NOT NULL ; items.price IS NULL ; aa[0] IS NULL ; isnull(tags) ; isnotnull(m)
    map_keys(m) IS NULL ; st.labels IS NULL ; st IS NULL
map_keys: size(map_keys(m)) ; map_keys(m)[0] ; array_contains(map_keys(m), s)
map_values: size(map_values(m)) ; map_values(mi)[0] ; array_contains(map_values(m), s)
map_contains_key: map_contains_key(m, {'k' | s}) ; map_contains_key(mi, {1 | i | 1L | '1'}) ; map_contains_key(m, NULL)
array_position: array_position(tags, {'a' | s}) ; array_position(ai, {7 | l}) ; array_position(ad, {0 | CAST('NaN' AS DOUBLE)})
    array_position(ap, 2) ; array_position(ai, NULL)
array_max: array_max({tags | ai | al | ad | af | ap | adt | abo | ax | items.price | items.n | map_keys(m) | array(i, 1, NULL)})
array_min: array_min({tags | ai | al | ad | af | ap | adt | abo | ax | items.price | items.n | map_keys(m) | array(i, 1, NULL)})
array: size(array(1, 2L, i)) ; size(array()) ; array_max(array(i, l, d)) ; array_min(array(p, 1)) ; array_max(array(s, n))
"""
"""By function, expressions with ` ; ` between them; ` | ` stands between what may stand in the braces of one."""

_LAMBDAS = """
tags, {t -> t = 'a' | x -> x LIKE 'a%'}
ai, x -> {x > 3 AND x < 9 | x > 0 OR x IS NULL | 10 / x > 1 | x = i | x IN (1, 7, NULL) | x BETWEEN b AND l | NULL | TRUE | x % 2 = 0}
ad, x -> x > 1 ; ap, x -> x >= 1.5 ; adt, d -> year(d) = 2020 ; abo, x -> {x | NOT x}
aa, a -> {exists(a, x -> x > 2) | size(a) > 1 | forall(a, x -> x > i) | exists(ai, x -> array_contains(a, x))}
items, p -> {p.price > 2 | p.n IS NULL | p.k[0] = 1 | size(p.k) > 0 AND p.price > 0 | p['n'] = s}
tags, TAGS -> tags = 'a' ; tags, t -> upper(t) = upper(s) ; tags, i -> length(i) > 1 ; tags, t -> CAST(t AS INT) > 0
ai, x -> x <> i AND 10 / i > 1 ; array(i, 1, NULL), x -> x = 1 ; map_keys(m), k -> m[k] = 'v' ; map_values(mi), v -> v > 1
st.labels, x -> x = st.city ; tags, t -> t RLIKE '^a' ; tags, t -> array_contains(st.labels, t)
"""
"""What `exists` and `forall` are asked."""


def _expressions(text: str) -> list[str]:
    """The expressions of a text.

    >>> _expressions("get(a, {0 | NULL}) ; a[0]")
    ['get(a, 0)', 'get(a, NULL)', 'a[0]']
    """
    found = []
    for item in re.split(r" ; |\n *", text.strip()):
        before, _, rest = item.partition("{")
        among, _, after = rest.partition("}")
        found += [f"{before}{choice.strip()}{after}" for choice in among.split("|")]
    return found


NESTED_CELLS: dict[str, list[str]] = {
    name: _expressions(text) for name, text in re.findall(r"^(\S.*?): (.*(?:\n .*)*)", _TEXT, re.M)
} | {name: [f"{name}({arguments})" for arguments in _expressions(_LAMBDAS)] for name in ("exists", "forall")}
"""By function, the expressions that are judged."""
