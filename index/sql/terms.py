"""The terms of index definitions: text becomes a term to record, and a recorded term an expression again.

A term is deterministic and of one row: it reads one to four columns and no present moment. It is bound again
to the columns with the ids that it was defined over, whatever their names are now. Where such a column is
gone or has another type, the term has no values: its definition serves nothing until it is rebuilt.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import lru_cache

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, PredicateError, UnknownColumnError
from tailbit.index.expression.build import BARE, PRESENT
from tailbit.index.expression.indexed_term import IndexedTerm, indexed_term, indexed_tuple
from tailbit.index.functions.tree import Expression, Ref, columns_in, key_of, spelled
from tailbit.index.keys import key_type_of
from tailbit.index.model import Definition, Term, TermColumn
from tailbit.index.sql.expressions import ExpressionReader, OperandReader
from tailbit.index.sql.refusals import refuse
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.sql.syntax.tokens import tokens_of
from tailbit.tables.model import Column
from tailbit.tables.schema import SameSchema, Schema, name_parts

_NOT_UTC = "Asia/Kathmandu"
MOST_COLUMNS = 4
"""Most columns that an indexed expression reads."""


def expression_of(text: str, schema: Schema, zone: str = "UTC", table: str = "", now: int = 0) -> Expression:
    """Bind the text of an expression to a schema; `now`: the present moment, in microseconds since 1970."""
    return ExpressionReader(OperandReader(text, schema, zone, table), zone, now).read(parse_predicate(text))


def term_of(text: str, schema: Schema, zone: str = "UTC", table: str = "") -> Term:
    """Return the term that a text defines over the columns of a schema.

    `zone`: the session time zone, which is recorded if the values depend on it.
    """
    refuse_present(text)
    expression = expression_of(text, schema, zone, table)
    columns = columns_in(expression)
    if not columns:
        reason = f"an indexed expression reads one to {MOST_COLUMNS} columns; this one is a constant"
        refuse(text, reason, 0, "Name a column in it.")
    if len(columns) > MOST_COLUMNS:
        reason = f"an indexed expression reads {MOST_COLUMNS} columns at most, not {len(columns)}"
        refuse(text, reason, 0, "Make an index of each of its parts: a question uses both.")
    hint = "Index an expression of one value, such as a field or size(tags)."
    key_type = value_type(text, expression, hint)
    zoned = depends_on_zone(expression, text, schema, zone, table)
    # Of a column of which only whether it is NULL is read, the type that it has in the table.
    types = {column.id: column.type for column in every_column(schema)}
    labels = tuple(TermColumn(c.label, c.id, spelled(types.get(c.id, c.type))) for c in columns)
    text = columns[0].label if isinstance(expression, Ref) else text.strip()
    return Term(text, labels, key_type, str(expression.type), zone if zoned else "UTC")


def refuse_present(text: str) -> None:
    """Refuse an expression that calls a function of the present moment."""
    tokens = tokens_of(text)
    for number, token in enumerate(tokens[:-1]):
        ahead = [after.text if after.kind == "sign" else "" for after in tokens[number + 1 : number + 3]]
        name, is_called = token.text.lower(), ahead[:1] == ["("]
        # With an argument, unix_timestamp converts a value of the row.
        is_present = name in PRESENT or (name == "unix_timestamp" and ahead == ["(", ")"])
        is_bare = token.kind == "word" and name in BARE
        if token.kind in ("word", "name") and is_present and (is_called or is_bare):
            reason = "an index keeps values of rows, which depend on no present moment"
            refuse(text, reason, token.start, "Leave it out, and compare with the present in the question.")


def depends_on_zone(
    expression: Expression, text: str, schema: Schema, zone: str = "UTC", table: str = ""
) -> bool:
    """Return whether the text of an expression, bound in a zone, has other values in another zone."""
    elsewhere = expression_of(text, schema, "UTC" if zone != "UTC" else _NOT_UTC, table)
    return key_of(expression) != key_of(elsewhere)


def zone_of(definition: Definition, schema: Schema) -> str | None:
    """Return the session time zone of the questions that a definition serves; None if it serves all."""
    for term in definition.terms:
        if term.zone != "UTC":
            return term.zone
        if not term.is_column and _is_zoned(term, schema):
            return "UTC"
    return None


def _is_zoned(term: Term, schema: Schema) -> bool:
    """Return whether a recorded term that is kept in UTC has other values in another zone."""
    present = {column.id: column for column in every_column(schema)}
    here = _bound_again(term, schema, present)
    there = _bound_again(replace(term, zone=_NOT_UTC), schema, present)
    return here is not None and there is not None and key_of(here) != key_of(there)


def value_type(text: str, expression: Expression, hint: str, index: int | None = None) -> str:
    """Return the key type of an expression's values."""
    try:
        return key_type_of(expression.type)
    except ColumnTypeError as wrong:
        refuse(text, f"its values are of type {expression.type.sql}: {wrong.fields['reason']}", index, hint)


def indexed_columns_of(definitions: Iterable[Definition], schema: Schema) -> list[Column]:
    """Return the columns and terms that definitions have postings of and that the schema has values of."""
    columns = (column_of(definition, schema) for definition in definitions)
    return [column for column in columns if column is not None]


def column_of(definition: Definition, schema: Schema) -> Column | None:
    """Return the column or term that a definition has postings of, as it is in a schema.

    None without postings, if a column is gone, or if a column of an expression has another type. Cost:
    nothing the second time, for the same schema object.
    """
    return (
        _column_of(definition.id, definition.terms, SameSchema(schema)) if definition.has_postings else None
    )


def kept_columns(definition: Definition, schema: Schema) -> tuple[Column, ...]:
    """Return the columns and expressions of a definition without postings that a schema has values of.

    Columns are returned whatever their types are now. A definition without terms is of all columns, and of
    the fields of structs.
    """
    column_ids = {column.id for term in definition.terms if term.is_column for column in term.columns}
    present = (column for column in every_column(schema) if not column.partition)
    columns = (column for column in present if not definition.terms or column.id in column_ids)
    return (*columns, *kept_expressions(definition, schema))


def kept_expressions(definition: Definition, schema: Schema) -> list[IndexedTerm]:
    """Return the expressions of a definition without postings, unless a schema has no values of them.

    The id of an expression is that of its definition, a dot and its place among the terms.
    """
    if definition.has_postings:
        return []
    ids = definition.expression_ids.items()
    bound = (_column_of(id_, (term,), SameSchema(schema)) for id_, term in ids)
    return [term for term in bound if isinstance(term, IndexedTerm)]


@lru_cache(maxsize=1024)
def _column_of(id_: str, terms: Sequence[Term], key: SameSchema) -> Column | None:
    present = {column.id: column for column in every_column(key.schema)}
    if [column.id for term in terms for column in term.columns] == [id_]:
        return present.get(id_)
    expressions = [_bound_again(term, key.schema, present) for term in terms]
    readable = [expression for expression in expressions if expression is not None]
    if len(readable) < len(terms):
        return None
    texts = [term.text for term in terms]
    return (
        indexed_term(id_, texts[0], readable[0])
        if len(readable) == 1
        else indexed_tuple(id_, texts, readable)
    )


def _bound_again(term: Term, schema: Schema, present: Mapping[str, Column]) -> Expression | None:
    """Return the expression of a recorded term; None if a column of it is gone or has another type."""
    now = [(was.type, present.get(was.id)) for was in term.columns]
    if any(column is None or spelled(column.type) != type_ for type_, column in now):
        return None
    try:
        return expression_of(term.text, with_old_names(schema, term.columns), term.zone)
    except (PredicateError, UnknownColumnError, ColumnTypeError):
        return None


def terms_anew(definition: Definition, schema: Schema) -> tuple[Term, ...]:
    """Return the terms of a definition over their columns as they are now.

    Columns without postings are bound again only if they are gone: statistics are kept whatever type a column
    has.
    """
    return tuple(
        _term_anew(term, schema)
        if definition.has_postings or not term.is_column
        else _column_anew(term, schema)
        for term in definition.terms
    )


def _column_anew(term: Term, schema: Schema) -> Term:
    """Return a recorded column without postings, or the one that has its name if it is gone."""
    if any(column.id == term.columns[0].id for column in every_column(schema)):
        return term
    column = schema.resolve(term.text)
    now = TermColumn(term.text, column.id, str(column.type))
    return replace(term, columns=(now,), type=str(column.type))


def _term_anew(term: Term, schema: Schema) -> Term:
    """Return a recorded term over the same columns as they are now, whatever their names and types are.

    A column that is gone is looked for by its name, and the text of an expression stays as it was written.
    """
    anew = term_of(term.text, with_old_names(schema, term.columns), term.zone)
    if anew.is_column:
        return anew
    labels = {was.id: was.label for was in term.columns}
    columns = tuple(replace(column, label=labels.get(column.id, column.label)) for column in anew.columns)
    return replace(anew, columns=columns)


def meanings_of(terms: Sequence[Term], schema: Schema) -> tuple[str, ...]:
    """Return a key of each recorded term, the same for terms that mean the same however they are written.

    A term that the schema has no values of means its own text.
    """
    present = {column.id: column for column in every_column(schema)}
    return tuple(_meaning(term, schema, present) for term in terms)


def _meaning(term: Term, schema: Schema, present: Mapping[str, Column]) -> str:
    if term.is_column:
        return term.columns[0].id
    expression = _bound_again(term, schema, present)
    return term.text if expression is None else key_of(expression)


def with_old_names(schema: Schema, columns: Iterable[TermColumn]) -> Schema:
    """Return a schema that resolves the names that columns had when a text was recorded.

    A recorded name, also one qualified by the table's name, means the column with the recorded id. All other
    names, and those of columns that are gone, mean what they mean now.
    """
    present = {column.id: column for column in every_column(schema)}
    now = [(was.label, present[was.id]) for was in columns if was.id in present]
    return _OldNames(schema.columns, {_lower(name_parts(label)): column for label, column in now})


def every_column(schema: Schema) -> Iterator[Column]:
    """Yield the columns of a schema, and the fields of structs among them."""
    return _every(schema.columns)


def _every(columns: Iterable[Column]) -> Iterator[Column]:
    for column in columns:
        yield column
        if column.type.name == "struct":
            yield from _every(column.type.fields)


@dataclass(frozen=True)
class _OldNames(Schema):
    """The columns of a table, some of them by the names that they had when a text was recorded."""

    known: Mapping[tuple[str, ...], Column] = field(default_factory=dict)

    def reach(self, names: Sequence[str]) -> tuple[Column, tuple[str, ...]]:
        """Return the column of the first parts of a name, and the parts behind it."""
        for first in (0, 1):
            for end in range(len(names), first, -1):
                column = self.known.get(_lower(names[first:end]))
                if column is not None:
                    return column, tuple(names[end:])
        return super().reach(names)


def _lower(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)
