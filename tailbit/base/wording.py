"""Words of messages: numbers with nouns, what a misspelt name may have meant, foreign text made harmless."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Tell = Callable[[str], None]
"""A function that shows one line of notice to a person."""


def tell_nobody(line: str) -> None:
    """Drop a notice; the default where no callback is given."""


def counted(n: int, noun: str, plural: str | None = None) -> str:
    """Return a number and its noun, in the plural unless the number is 1.

    >>> counted(1, "file"), counted(2000, "file"), counted(0, "query", "queries")
    ('1 file', '2,000 files', '0 queries')
    """
    return f"{n:,} {noun if n == 1 else plural or noun + 's'}"


def with_article(noun: object) -> str:
    """Return a noun, such as a type's name, behind its article; the type of NULL is NULL.

    >>> with_article("integer"), with_article("string"), with_article("n"), with_article("void")
    ('an integer', 'a string', 'an n', 'NULL')
    """
    name = str(noun)
    if name == "void":
        return "NULL"
    begins = _LETTERS_WITH_AN if len(name) == 1 else _VOWELS
    return f"{'an' if name[:1].lower() in begins else 'a'} {name}"


_VOWELS = frozenset("aeiou")
_LETTERS_WITH_AN = frozenset("aefhilmnorsx")
"""Letters whose own names begin with the sound of a vowel."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return a question that names the known name nearest to a misspelt one; empty if none is near.

    >>> did_you_mean("colums", ["columns", "limit"]), did_you_mean("x", ["columns"])
    (' Did you mean columns?', '')
    """
    import difflib  # Only a misspelt name needs it.

    by_lower = {known_name.lower(): known_name for known_name in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]}?" if near else ""


def size_text(size: int) -> str:
    """Return a number of bytes with the unit that people read.

    >>> size_text(0), size_text(1536), size_text(5_000_000)
    ('0 B', '1.5 KiB', '4.8 MiB')
    """
    amount, unit = float(size), 0
    while amount >= _KIB and unit < len(_UNITS) - 1:
        amount, unit = amount / _KIB, unit + 1
    return f"{size} B" if not unit else f"{amount:.1f} {_UNITS[unit]}"


_KIB = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def quoted(*path: str) -> str:
    """Return a name as SQL writes it, between backticks; the parts are those between its dots.

    >>> quoted("st", "a`b")
    '`st`.`a``b`'
    """
    return ".".join("`" + name.replace("`", "``") + "`" for name in path)


_STEERS = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
"""Control characters, line ends, marks that change the direction of text, and code points without character.
"""


def visible(text: str, lines: bool = False) -> str:
    r"""Return a text with control characters escaped, as Python writes them.

    `lines`: ends of lines stay, as in a message that points with a caret.

    >>> print(visible("a\x1b[2Jb\nc"))
    a\x1b[2Jb\nc
    """
    if text.isprintable():
        return text
    return re.sub(_STEERS, lambda match: _escape(match[0], lines), text)


_OF_LINES = ("reason", "remedy", "hint", "predicate", "statement", "place", "problems")
"""Fields of errors that may have several lines, for example to point with a caret; paths have one line."""


def visible_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an error with control characters escaped."""
    return {
        name: visible(value) if isinstance(value, str) and name not in _OF_LINES else value
        for name, value in fields.items()
    }


def _escape(character: str, lines: bool) -> str:
    if lines and character == "\n":
        return character
    return character.encode("unicode_escape").decode("ascii")
