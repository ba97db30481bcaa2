"""Hints for characters that begin nothing in SQL: what to write instead."""

from __future__ import annotations

_CHARACTERS = {
    **dict.fromkeys("‘’‚‛′´", "Write straight quotes: 'UA'."),
    **dict.fromkeys("“”„‟″«»", "Write straight quotes: 'UA'."),
    "≥": "Write >=.",
    "≤": "Write <=.",
    **dict.fromkeys("≠≢", "Write <>."),
    "∧": "Write AND.",
    "∨": "Write OR.",
    "¬": "Write NOT.",
    "−": "Write the minus sign of the keyboard: -.",
    "–": "Write the minus sign of the keyboard: -.",
    "×": "Write *.",
    "÷": "Write /.",
    "{": "Lists stand in parentheses: dest IN ('SFO', 'LAX'). A value from outside is a parameter: "
    'where("n > :n", {"n": 5}).',
    "}": "Lists stand in parentheses: dest IN ('SFO', 'LAX').",
    "#": "A comment begins with two minus signs: --. A name with # stands in backticks.",
    "$": 'A value from outside is a parameter: where("n > :n", {"n": 5}); a name stands in backticks.',
    "@": "A text stands in quotes, a name in backticks. A value from outside is a parameter: "
    'where("n > :n", {"n": 5}).',
    "\\": "A backslash stands only within quotes. In a shell, put the whole condition in double quotes.",
}


def of_character(text: str, at: int) -> tuple[str, int, str]:
    """Return the error for a character that begins no token of SQL, its place, and what to write instead."""
    character = text[at]
    if character == "{" and text[max(0, at - 1) : at + 2].count("{") + text[at:].count("}}") > 2:
        return "a template is not filled in", at, _CHARACTERS["{"]
    shown = character if character.isprintable() else repr(character)
    hint = _CHARACTERS.get(character, "Put it in quotes if it is part of a text, in backticks if of a name.")
    return f"the character {shown} stands outside of quotes", at, hint
