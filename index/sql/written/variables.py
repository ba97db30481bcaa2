"""Variables such as `${x}`: Spark puts a setting in their place, in quotes too, before it reads a text.

Source: Spark 4.2, VariableSubstitution and ConfigReader.
"""

from __future__ import annotations

import re

_VARIABLE = re.compile(r"\$\{[^ \t\n\x0b\f\r]+?\}")


def variable_in(text: str) -> tuple[str, int, str] | None:
    """Why a text with a variable is refused, its place, and what to write instead; None where it has none.

    >>> variable_in("s = 'a'")
    >>> variable_in("s = '${x}'")[:2]
    ("'${x}' is a variable", 5)
    """
    found = _VARIABLE.search(text)
    if found is None:
        return None
    hint = "Spark puts a setting in its place. For the characters themselves write '$' '{x}'."
    return f"{found.group()!r} is a variable", found.start(), hint
