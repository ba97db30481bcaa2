"""Variables such as `${x}`, which Spark replaces by a setting, in quotes too, before it reads a text.

Source: Spark 4.2, VariableSubstitution and ConfigReader.
"""

from __future__ import annotations

import re

_VARIABLE = re.compile(r"\$\{[^ \t\n\x0b\f\r]+?\}")


def variable_in(text: str) -> tuple[str, int, str] | None:
    """Return why a text with a variable is refused, its place, and what to write instead; None without one.

    >>> variable_in("s = 'a'")
    >>> variable_in("s = '${x}'")[:2]
    ("'${x}' is a variable", 5)
    """
    variable = _VARIABLE.search(text)
    if variable is None:
        return None
    hint = "Spark puts a setting in its place. For the characters themselves write '$' '{x}'."
    return f"{variable.group()!r} is a variable", variable.start(), hint
