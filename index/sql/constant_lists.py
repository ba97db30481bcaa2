"""Constants of a list, converted together: those of one type as the list of their canonical values.

(1, -2, 3000000000, NULL)      INT 1 -2 · BIGINT 3000000000 · VOID NULL
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tailbit.index.functions.tree import Expression
from tailbit.index.sql.operands import OperandReader, bare
from tailbit.index.sql.syntax.lists import Alike, Listed
from tailbit.index.sql.syntax.tree import Tree, left
from tailbit.index.values.casts import cast_all
from tailbit.index.values.literals import NUMERIC, STRING, Constants, Literal, alike, numbers


class ConstantLists:
    """Converter of the lists of one parsed predicate into constants; `read` converts one item."""

    def __init__(self, operands: OperandReader, read: Callable[[Tree], Expression]) -> None:
        self._operands, self._read = operands, read

    def constants(self, listed: Listed) -> list[Constants] | None:
        """Return the constants of a list by their types; None if an item is no constant.

        Raises:
            PredicateError: an item is refused; the error says where.
        """
        singles = list[Literal]()
        for item in map(listed.__getitem__, listed.others):
            expression = self._read(item)
            if not isinstance(expression, Literal):
                return None
            singles.append(expression)
        constants_by_type = alike(singles)
        for same in listed.alike:
            converted = self._by_form(same) or self._one_by_one(listed, same)
            if converted is None:
                return None
            constants_by_type += converted
        return constants_by_type

    def _one_by_one(self, listed: Listed, same: Alike) -> list[Constants] | None:
        """Return the constants of items of one form, each read by itself; None if they are no constants."""
        listed_at = same.numbers if same.texts else same.numbers[:1]
        read = [self._read(listed[number]) for number in listed_at]
        literals = [item for item in read if isinstance(item, Literal)]
        return alike(literals) if len(literals) == len(read) else None

    def _by_form(self, same: Alike) -> list[Constants] | None:
        """Return the constants of items of one form; None if they must be read by themselves, or refused."""
        try:
            return self._of(same.form.first, same.texts) if same.texts else None
        except ValueError:
            return None

    def _of(self, first: Tree, texts: Sequence[str]) -> list[Constants] | None:
        item = bare(first)
        written = item.constant
        if written is not None and written.kind == "string":
            return [Constants(STRING, [text.encode() for text in texts])]
        if written is not None and written.kind == "number":
            return numbers(texts, written.negative)
        inner = self._of(left(item), texts) if item.kind == "cast" else None
        if inner is None:
            return None
        to = self._operands.cast_to(item)
        if any(
            constants.type != STRING and not {constants.type.name, to.name} <= {*NUMERIC}
            for constants in inner
        ):
            return None
        return [Constants(to, cast_all(constants, to, self._operands.zone)) for constants in inner]
