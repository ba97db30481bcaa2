"""Calls on arrays, maps and structs: elements, fields, keys, and lambda expressions over elements.

Source: Spark 4.2, complexTypeExtractors, collectionOperations and higherOrderFunctions; checked against Spark
itself by the tests. The reader of the text, not this module, tells names of elements from names of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tailbit.base.wording import with_article
from tailbit.index.expression.build import Builder, call, wrong_type
from tailbit.index.functions.tree import Call, Expression, Ref
from tailbit.index.values.coercion import common_type
from tailbit.index.values.literals import (
    BINARY,
    BOOLEAN,
    INTEGER,
    LONG,
    NUMERIC,
    STRING,
    TIMES,
    WHOLE,
    Literal,
    NotRead,
    array_of_type,
    mismatch,
    range_of,
)
from tailbit.tables.model import Column, DataType

NESTED = ("array", "map", "struct", "variant")
"""Types whose values contain other values."""
_COMPARED = (*NUMERIC, *TIMES, BOOLEAN.name, STRING.name, BINARY.name)
"""Element and key types that can be compared."""
_ACCESS_HINT = "Elements are asked of arrays, as tags[0], keys of maps, as m['k'], fields of structs, as s.a."
_VARIABLE = "\N{GREEK SMALL LETTER LAMDA}"
"""First part of the path of an element's column; no column of a table has it."""


def variable(name: str, level: int, type_: DataType) -> Ref:
    """Return the element variable of a lambda as a column; `level`: the number of lambdas around it."""
    return Ref(Column((name,), (_VARIABLE, str(level)), type_))


def over_elements(b: Builder, name: str, array: Expression, element: Ref, body: Expression) -> Expression:
    """Build `exists(array, element -> body)` or `forall`; `name` says which."""
    return call(name, [array, b.truth(body)], BOOLEAN, (element.column.id,))


def element_of(name: str, value: Expression) -> DataType:
    """Return the element type of an array."""
    if value.type.name != "array":
        error = "NULL_TYPE" if value.type.name == "void" else "UNEXPECTED_INPUT_TYPE"
        raise wrong_type(name, "an array", value, "Name a column of arrays, or write array(1, 2).", error)
    return value.type.fields[0].type


def extracted(b: Builder, value: Expression, key: Expression) -> Expression:
    """Build `value[key]`: an element, a field, or the value of a key; `value.name` has the name as `key`."""
    type_ = value.type
    named = isinstance(key, Literal) and key.type == STRING and isinstance(key.value, bytes)
    if type_.name == "struct" or (type_.name == "array" and type_.fields[0].type.name == "struct" and named):
        if not named:
            raise NotRead(
                "a field of a struct is named by a text (INVALID_EXTRACT_FIELD_TYPE in Spark)", _ACCESS_HINT
            )
        return _field(value, key.value.decode())  # type: ignore[union-attr]
    if type_.name == "array":
        _refuse_made(value)
        return _element(b, value, _place(b, key, "[n]", (*WHOLE, "void")), 0, "INVALID_ARRAY_INDEX")
    if type_.name == "map":
        key_type = type_.fields[0].type
        return _value_of(value, b.implicit(key, _compared("[key]", key_type), "[key] of a map"))
    raise NotRead(
        f"{with_article(type_.sql)} has no elements or fields (INVALID_EXTRACT_BASE_FIELD_TYPE in Spark)",
        _ACCESS_HINT,
    )


def _field(value: Expression, name: str) -> Expression:
    struct = value.type if value.type.name == "struct" else value.type.fields[0].type
    numbers = [n for n, field in enumerate(struct.fields) if field.name[-1].lower() == name.lower()]
    if len(numbers) != 1:
        names = ", ".join(field.name[-1] for field in struct.fields)
        error = "AMBIGUOUS_REFERENCE_TO_FIELDS" if numbers else "FIELD_NOT_FOUND"
        raise NotRead(f"the struct has no field {name} ({error} in Spark)", f"It has {names}.")
    column = struct.fields[numbers[0]]
    if isinstance(value, Ref) and value.type is struct and value.column.physical[0] != _VARIABLE:
        return Ref(column)
    type_ = column.type if value.type is struct else array_of_type(column.type)
    return call("field", [value], type_, (numbers[0],))


def _element(b: Builder, array: Expression, place: Expression, first: int, error: str) -> Expression:
    return call("element_at", [array, place], element_of("[n]", array), (first, error))


def _place(b: Builder, key: Expression, name: str, kinds: Sequence[str]) -> Expression:
    if key.type.name not in kinds:
        raise wrong_type(name, "a whole number", key, _ACCESS_HINT)
    return b.cast(key, LONG)


def _value_of(value: Expression, key: Expression) -> Expression:
    return call("map value", [value, key], value.type.fields[1].type)


def _refuse_made(value: Expression) -> None:
    """Refuse an index into array(...), which Spark replaces by the argument, or by NULL without an error."""
    if isinstance(value, Literal) or (isinstance(value, Call) and value.name == "array"):
        raise NotRead("an element of array(...) by its place is not read", "Write the element itself.")


def _compared(name: str, type_: DataType) -> DataType:
    if type_.name not in _COMPARED:
        raise NotRead(f"{name} of elements of type {type_.sql} is not read", "Write exists(a, x -> ...).")
    return type_


def _comparison_type(name: str, a: DataType, b: DataType, error: str, decimals: bool) -> DataType:
    """Return the type in which elements of type `a` are compared with values of type `b`.

    `decimals`: whether decimals may be compared with numbers of other types.
    """
    if "void" in (a.name, b.name):
        return _compared(name, b if a.name == "void" else a)
    if a.name in NESTED and b.name in NESTED:
        return _compared(name, a)  # always refused, and not as a mismatch: Spark reads arrays of arrays
    common = common_type(a, b)
    strings = (a.name == "string") + (b.name == "string")
    mixed = a != b and "decimal" in (a.name, b.name)
    if common is None or strings == 1 or (mixed and not decimals):
        raise NotRead(
            mismatch(f"{name} of elements of type {a.sql} and {with_article(b.sql)} is not read", error),
            "CAST it.",
        )
    if mixed and common.name == "decimal":
        whole = max(side.precision - side.scale for side in (a, b, common) if side.name == "decimal")
        if whole + max(a.scale, b.scale) > common.precision:
            raise NotRead("decimals of more than 38 digits are not read", "CAST them to fewer digits.")
    if {a.name, b.name} & {"float"} and a != b:
        raise NotRead(
            f"{name} of elements of type {a.sql} and {with_article(b.sql)} is not read", "CAST it AS DOUBLE."
        )
    return _compared(name, common)


def _elements_as(b: Builder, array: Expression, to: DataType) -> Expression:
    if array.type.fields[0].type == to:
        return array
    if isinstance(array, Literal) and not any(v is not None for v in array.value or ()):  # type: ignore[union-attr]
        return Literal(array_of_type(to), array.value)
    element = Ref(Column(("element",), (_VARIABLE, "cast"), array.type.fields[0].type))
    return call("transform", [array, b.cast(element, to)], array_of_type(to), (element.column.id,))


def _beside(
    b: Builder, name: str, array: Expression, value: Expression, error: str, decimals: bool = True
) -> list[Expression]:
    """Cast an array and a value to one element type."""
    element = element_of(name, array)
    if value.type.name == "void":
        raise NotRead(mismatch(f"{name} takes no NULL without a type", "NULL_TYPE"), "CAST it.")
    common = _comparison_type(name, element, value.type, error, decimals)
    return [_elements_as(b, array, common), b.cast(value, common)]


def contains(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build array_contains."""
    array, value = _beside(b, "array_contains", args[0], args[1], "ARRAY_FUNCTION_DIFF_TYPES")
    narrow = _as_held(value, element_of("array_contains", args[0]))
    sides = [array, value] if narrow is None else [args[0], narrow]
    return call("array_contains", sides, BOOLEAN)


def _as_held(value: Expression, type_: DataType) -> Literal | None:
    """Return an exact constant in the elements' type, so that they need no cast; None if it does not fit."""
    exact = (*WHOLE, "decimal")
    if not isinstance(value, Literal) or value.value is None:
        return None
    if value.type.name not in exact or type_.name not in exact:
        return None
    unscaled, limits = value.number * 10**type_.scale, range_of(type_)
    if limits is None or unscaled.denominator != 1 or not limits[0] <= unscaled <= limits[1]:
        return None
    return Literal(type_, int(unscaled))


def position(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build array_position."""
    if args[1].type.name == "void" and args[0].type.name == "array":
        return Literal(LONG, None)
    sides = _beside(b, "array_position", args[0], args[1], "ARRAY_FUNCTION_DIFF_TYPES", decimals=False)
    return call("array_position", sides, LONG)


def overlap(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build arrays_overlap."""
    a, c = (element_of("arrays_overlap", arg) for arg in args)
    common = _comparison_type("arrays_overlap", a, c, "BINARY_ARRAY_DIFF_TYPES", decimals=False)
    return call("arrays_overlap", [_elements_as(b, arg, common) for arg in args], BOOLEAN)


def size(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build size or cardinality of an array or map, or array_size."""
    kind = args[0].type.name
    if kind == "void":
        return Literal(INTEGER, None)
    if kind != "array" and (kind != "map" or name == "array_size"):
        accepted = "an array" if name == "array_size" else "an array or a map"
        raise wrong_type(name, accepted, args[0], "Write length(s) for a text.")
    return call("size", args, INTEGER)


def element_at(error: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build element_at, or try_element_at, which is NULL if there is no such element."""
    value, key = args
    if value.type.name == "map":
        if key.type.name == "void":
            raise NotRead(mismatch("element_at takes no NULL without a type", "NULL_TYPE"), "CAST it.")
        key_type = value.type.fields[0].type
        common = _comparison_type("element_at", key_type, key.type, "MAP_FUNCTION_DIFF_TYPES", decimals=False)
        fits = isinstance(key, Literal) and key.type.name in WHOLE and _holds(key_type, key.value)
        if common != key_type and not fits:
            kinds = f"keys of type {key_type.sql} and {with_article(key.type.sql)}"
            reason = f"element_at of a map of {kinds} is not read"
            raise NotRead(reason, "CAST it.")
        return _value_of(value, b.cast(key, key_type))
    element_of("element_at", value)
    _refuse_made(value)
    place = _place(b, key, "element_at", ("byte", "short", "integer"))
    return _element(b, value, place, 1, error)


def _holds(type_: DataType, value: object) -> bool:
    low, high = WHOLE.get(type_.name, (1, 0))
    return isinstance(value, int) and low <= value <= high


def got(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build get: an element counted from 0, NULL if there is none."""
    element_of("get", args[0])
    _refuse_made(args[0])
    place = b.cast(_place(b, args[1], "get", (*WHOLE, "void")), INTEGER)
    return _element(b, args[0], place, 0, "")


def part_of_map(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build map_keys or map_values."""
    if args[0].type.name != "map":
        raise wrong_type(name, "a map", args[0], "Name a column of maps.")
    return call(name, args, array_of_type(args[0].type.fields[name == "map_values"].type))


def contains_key(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build map_contains_key."""
    keys = part_of_map("map_keys", b, args[:1])
    return call(
        "array_contains",
        _beside(b, "map_contains_key", keys, args[1], "MAP_FUNCTION_DIFF_TYPES", decimals=False),
        BOOLEAN,
    )


def extreme(name: str, b: Builder, args: Sequence[Expression]) -> Expression:
    """Build array_max or array_min."""
    return call(name, args, _compared(name, element_of(name, args[0])))


def array_of_values(b: Builder, args: Sequence[Expression]) -> Expression:
    """Build array(...), its elements cast to one type."""
    if not args:
        return Literal(array_of_type(DataType("void")), ())  # type: ignore[arg-type]
    same = b.to_common_type(args, "array")
    return call("array", same, array_of_type(same[0].type))


NESTED_FUNCTIONS: dict[str, tuple[int, int, Callable[[Builder, Sequence[Expression]], Expression]]] = {
    "array_contains": (2, 2, contains),
    "arrays_overlap": (2, 2, overlap),
    **{name: (1, 1, partial(size, name)) for name in ("size", "cardinality", "array_size")},
    "element_at": (2, 2, partial(element_at, "INVALID_ARRAY_INDEX_IN_ELEMENT_AT")),
    "try_element_at": (2, 2, partial(element_at, "")),
    "get": (2, 2, got),
    **{name: (1, 1, partial(part_of_map, name)) for name in ("map_keys", "map_values")},
    "map_contains_key": (2, 2, contains_key),
    "array_position": (2, 2, position),
    **{name: (1, 1, partial(extreme, name)) for name in ("array_max", "array_min")},
    "array": (0, 1 << 31, array_of_values),
}
"""Functions that take arrays or maps: least and most arguments, and the builder of the call."""
OVER_ELEMENTS = ("exists", "forall")
"""Functions of an array and a condition over each of its elements."""
