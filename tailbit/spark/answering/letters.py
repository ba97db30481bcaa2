"""The letters of a session, compared with those of tailbit's functions.

Which letter is another one's upper or lower case depends on the session's locale, on its setting of ICU and
on the Unicode of its release. Characters of which tailbit does not know it are read by no index either, and
count as equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tailbit.index.functions.table import kernel
from tailbit.index.functions.tree import Call, Ref
from tailbit.index.functions.vectors import canonical
from tailbit.index.values.literals import STRING
from tailbit.spark.answering.request import Declined
from tailbit.tables.model import Column

_TEXT = Ref(Column(("text",), ("text",), STRING))
_SURROGATES = range(0xD800, 0xE000)


def compared(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply to a request that has the letters of a session.

    Raises:
        Declined: the request is malformed.
    """
    function, letters, most = given.get("function"), given.get("letters"), given.get("most")
    if function not in ("lower", "upper") or not isinstance(letters, dict) or not isinstance(most, int):
        raise Declined("malformed", "letters: a function, its letters and their number")
    reply = {"table": given.get("table"), "version": given.get("version")}
    return reply | {"differs": difference(function, letters, most)}


def difference(function: str, letters: Mapping[str, str], most: int) -> str:
    """Return a text whose case is another one here than in `letters`, as an example; empty if there is none.

    `letters`: the other case of each character below `most` that has one, and of some texts.
    """
    turned = str.lower if function == "lower" else str.upper
    own = (chr(code) for code in range(most) if code not in _SURROGATES)
    texts = list(dict.fromkeys([*letters, *(letter for letter in own if turned(letter) != letter)]))
    call = Call(function, (_TEXT,), STRING)
    vector = kernel(function)(call, [pa.array(texts, pa.string())])
    results = canonical(vector.values, STRING)
    for text, result, unread in zip(texts, results, vector.failed.tolist(), strict=True):
        there = letters.get(text, text)
        if not unread and result.decode() != there:
            return f"{text!a} is {there!a}, not {result.decode()!a}"
    return ""
