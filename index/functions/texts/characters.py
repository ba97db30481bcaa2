"""Which functions work on characters, and which texts are not valid UTF-8.

Spark counts characters of invalid UTF-8 by their first bytes, and replaces invalid bytes by U+FFFD when it
makes a Java string of a text. Results for such texts are unsupported here.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tailbit.base.arrays import Mask
from tailbit.index.functions.texts.at_once import constant_text
from tailbit.index.functions.texts.patterns import like_parts
from tailbit.index.functions.tree import Call
from tailbit.index.functions.vectors import NOT_READ, Vector, code, first_of, nulls_of
from tailbit.index.values.literals import STRING
from tailbit.tables import compute as pc
from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, numpy_of

_OF_CHARACTERS = frozenset(
    "length lower upper trim ltrim rtrim substring left right instr locate lpad rpad strip translate reverse "
    "ascii like rlike cast try_cast initcap get_json_object".split()
) | {"parsed time", "regexp_extract", "regexp_replace", "split_part", "split item", "split size"}


def takes_characters(call: Call) -> bool:
    """Return whether a function works on characters; others compare, join and search bytes."""
    if call.name not in _OF_CHARACTERS or all(arg.type != STRING for arg in call.args):
        return False
    if call.name in ("cast", "try_cast"):
        return call.type.name not in ("string", "binary")
    pattern = constant_text(call, 1) if call.name == "like" else None
    return pattern is None or like_parts(pattern, str(call.setting[0])) is None


def readable(texts: Vector) -> Vector:
    """Set texts that are not UTF-8 to NULL, with the error NOT_READ. Cost: a pass over the bytes."""
    if not pa.types.is_string(texts.values.type) or _is_utf8(texts.values):
        return texts
    wrong = _not_utf8(texts.values)
    values = pc.if_else(arrow_array(wrong), arrow_scalar(None, pa.string()), texts.values)
    return Vector(values, first_of([texts.raised, code(NOT_READ, wrong)]))


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _not_utf8(texts: pa.Array) -> Mask:
    """Return the mask of texts that are not UTF-8; each text that is not ASCII is decoded."""
    odd = np.flatnonzero(~nulls_of(texts) & ~numpy_of(filled(pc.string_is_ascii(texts), True)))
    wrong = np.zeros(len(texts), dtype=np.bool_)
    for at, text in zip(
        odd.tolist(), pc.take(texts, arrow_array(odd)).view(pa.binary()).to_pylist(), strict=True
    ):
        wrong[at] = text.decode(errors="replace").encode() != text
    return wrong
