"""Named definitions of an index: made from statements, changed, found, and written as statements.

The definitions that each data file of a table requires: this module alone decides them.

The planner, the plan of a batch, the filler, `status` and REBUILD call it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import pyarrow as pa

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import (
    ColumnTypeError,
    IndexNameTakenError,
    PredicateError,
    UnknownColumnError,
    UnknownIndexError,
)
from tailbit.base.wording import did_you_mean, quoted
from tailbit.index.functions.tree import Ref
from tailbit.index.kinds.kind import Definable
from tailbit.index.kinds.schemas import DEFINABLE
from tailbit.index.maintenance.alter import alter, change_definitions, retried
from tailbit.index.model import (
    BITMAP,
    COUNTS_REASON,
    DEFERRED,
    HASH,
    KEYS,
    RECORD_KEY,
    REPLACES,
    Definition,
    Term,
    TermColumn,
    new_id,
)
from tailbit.index.predicate.tree import Leaf, Node, Or, columns_of
from tailbit.index.predicate.truth import judged
from tailbit.index.sql.bind import bind
from tailbit.index.sql.ddl.parser import Scripted
from tailbit.index.sql.ddl.statements import (
    EVERY,
    CreateIndex,
    RebuildIndex,
    TableReference,
    WrittenExpression,
)
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.sql.syntax.tree import Tree
from tailbit.index.sql.terms import (
    every_column,
    expression_of,
    indexed_columns_of,
    meanings_of,
    refuse_present,
    term_of,
    with_old_names,
)
from tailbit.index.store.table import MetadataTable
from tailbit.tables.model import Column
from tailbit.tables.schema import Schema, name_parts

BY_PARTITION = "by partition"
"""The value of the option `deferred` once partitions were rebuilt; before the first rebuild it is `true`."""

WITHIN = "where"
"""The option that keeps the condition of a deferred partial definition while partitions are rebuilt."""

_ALL = "*"


def define(statement: CreateIndex, schema: Schema, zone: str = "UTC", table: str = "") -> Definition:
    """Return the definition that a statement makes over the columns of a schema.

    `zone`: the session time zone. `table`: the table's own name, which may qualify column names.
    """
    options = {**statement.options, **{f"property:{key}": text for key, text in statement.properties.items()}}
    if statement.comment:
        options["comment"] = statement.comment
    if statement.deferred:
        options[DEFERRED] = "true"
    only, read = ("", ()) if statement.only is None else _checked_partitions(statement.only, schema, table)
    has_postings, definable = statement.kind in (BITMAP, RECORD_KEY), DEFINABLE[statement.kind]
    columns = list[Column | None]()
    if has_postings or definable.columns_of:
        columns += [_column(term, schema, zone, table) for term in statement.terms]
    if definable.columns_of:
        _check_columns(statement, columns, definable)
    if not has_postings:
        terms = _terms_by_themselves(statement, schema, zone, table)
        _check_different(statement, terms, schema)
        return Definition(new_id(), statement.name, statement.kind, terms, options, only, read)
    if statement.kind == RECORD_KEY and options.get(KEYS) == HASH:
        hashed = (_hashed(statement, columns, schema),)
        return Definition(new_id(), statement.name, statement.kind, hashed, options, only, read)
    if len(columns) == 1 and (alone := columns[0]) is not None:
        plain = Definition.of_column(alone)
        named = replace(plain, name=statement.name, kind=statement.kind, options=options)
        return replace(named, only=only, only_columns=read)
    terms = tuple(_term(term, schema, zone, table) for term in statement.terms)
    _check_different(statement, terms, schema)
    return Definition(new_id(), statement.name, statement.kind, terms, options, only, read)


def _check_columns(statement: CreateIndex, columns: Sequence[Column | None], definable: Definable) -> None:
    """Raise if a term is not a column, or is one that definitions of the kind cannot have."""
    for term, column in zip(statement.terms, columns, strict=True):
        if column is None:
            hint = f"Write USING bitmap ({term})."
            term.refuse(f"{definable.columns_of} of columns, and {term} is another expression", hint)
        reason = definable.unfit(column) if definable.unfit is not None else None
        if reason is not None:
            term.refuse(reason.format(term=term), "Leave it out.")


_HASHED_TYPES = ("byte", "short", "integer", "long", "string", "binary", "date", "timestamp", "timestamp_ntz")
"""Types whose equal values have one form, and therefore one hash."""


def _hashed(statement: CreateIndex, columns: Sequence[Column | None], schema: Schema) -> Term:
    """Return the hash of 48 bits of some columns, as an expression of functions that Spark has."""
    labels = []
    for term, column in zip(statement.terms, columns, strict=True):
        if column is not None and (column.type.name not in _HASHED_TYPES or column.type.char_length):
            hint = (
                f"Leave {term} or the option out: whole numbers, dates, times, texts and bytes have hashes."
            )
            term.refuse(f"{term} is {column.type.sql}, of which no hashes are kept", hint)
        labels.append(column.label if column is not None else term.text)
    once, twice = ", ".join(labels), ", ".join((*labels, *labels))
    return term_of(HASH_OF.format(once=once, twice=twice), schema)


HASH_OF = "CAST(hash({once}) AS BIGINT) * 65536 + pmod(hash({twice}), 65536)"
"""The hash whose postings a record key with `keys=hash` has."""


def _check_different(statement: CreateIndex, terms: tuple[Term, ...], schema: Schema) -> None:
    """Raise if two terms have one meaning, written in two ways."""
    meanings = meanings_of(terms, schema)
    for number, written in enumerate(statement.terms[: len(terms)]):
        if meanings[number] in meanings[:number]:
            first = statement.terms[meanings.index(meanings[number])]
            written.refuse(f"the term {written} is the same as {first}", "Leave one out.")


def _term(term: WrittenExpression, schema: Schema, zone: str, table: str) -> Term:
    with term.placed():
        return term_of(term.text, schema, zone, table)


def _column(term: WrittenExpression, schema: Schema, zone: str, table: str) -> Column | None:
    """Return the column that a term names; None if it is another expression."""
    if not term.column:
        return None
    with term.placed():
        expression = expression_of(term.text, schema, zone, table)
    return expression.column if isinstance(expression, Ref) else None


def _terms_by_themselves(statement: CreateIndex, schema: Schema, zone: str, table: str) -> tuple[Term, ...]:
    """Return the terms of a kind that treats each term separately; no terms stand for all columns."""
    terms = []
    for term in statement.terms:
        if term.text == _ALL:
            return ()
        column = _column(term, schema, zone, table)
        if column is None:
            terms.append(_term(term, schema, zone, table))
        else:
            named = TermColumn(column.label, column.id, str(column.type))
            terms.append(Term(column.label, (named,), "", str(column.type)))
    return tuple(terms)


def _checked_partitions(
    only: WrittenExpression, schema: Schema, table: str = ""
) -> tuple[str, tuple[TermColumn, ...]]:
    """Return the text of a condition on partition columns, and the columns that it reads."""
    partitions = [column.label for column in schema.columns if column.partition]
    with only.placed():
        refuse_present(only.text)
        # Bound in the same way as later for each new file.
        columns = columns_of(bind(only.text, schema, table=table))
    hint = f"Partition columns: {', '.join(partitions)}." if partitions else "The table has none."
    others = [column.label for column in columns if not column.partition]
    if others:
        only.refuse(f"an index is made of whole files, and {others[0]} is no partition column", hint)
    if not columns:
        only.refuse("the condition of a part reads no partition column", hint)
    return only.text, tuple(TermColumn(c.label, c.id, str(c.type)) for c in columns)


def find(definitions: Iterable[Definition], name: str) -> Definition | None:
    """Return the definition of a name, in any case, or None.

    While a definition is rebuilt, two have its name: the older one is returned.

    An index that has the name of its column, as SQL text, is also found by that name without backticks.
    """
    candidates, lower = tuple(definitions), name.lower()
    exact = next((definition for definition in candidates if definition.name.lower() == lower), None)
    named = (d for d in candidates if d.is_of_column and d.name == d.label)
    return exact or next((d for d in named if ".".join(name_parts(d.label)).lower() == lower), None)


def definition_named(index: MetadataTable, name: str) -> Definition:
    """Return the definition of a name, in any case.

    Raises:
        UnknownIndexError: there is none; lists those that there are.
    """
    definitions = index.state.settings.definitions
    definition = find(definitions, name)
    if definition is None:
        names = [existing.name for existing in definitions]
        raise UnknownIndexError(
            name=name, path=index.path, indexes=", ".join(names) or "none", nearest=did_you_mean(name, names)
        )
    return definition


def add(index: MetadataTable, definition: Definition, schema: Schema) -> None:
    """Add a definition to an index; of two processes that take one name at once, one succeeds."""
    alter(index, [definition], [], lambda others: check_free(others, definition, schema))


def check_free(definitions: Iterable[Definition], definition: Definition, schema: Schema) -> None:
    """Raise if another definition has the name or the terms of a new definition.

    Raises:
        IndexNameTakenError: another definition has the name, or is of the same terms, however written.
    """
    others = tuple(definitions)
    existing = find(others, definition.name)
    if existing is not None:
        raise IndexNameTakenError(name=definition.name, reason=f"it is an index of {existing.label}")
    other = next(alike(others, definition, schema), None)
    if other is not None:
        reason = f"{other.name} is an index of {other.label} already"
        hint = f"Use {other.name}, or drop it first."
        raise IndexNameTakenError(name=definition.name, reason=reason, hint=hint)


def alike(definitions: Iterable[Definition], definition: Definition, schema: Schema) -> Iterator[Definition]:
    """Yield the definitions that are of the terms of another one, however written, and serve as it does."""
    meanings = meanings_of(definition.terms, schema)
    for other in definitions:
        serves = other.kind == definition.kind or (other.has_postings and definition.has_postings)
        if serves and meanings_of(other.terms, schema) == meanings:
            yield other


def drop(index: MetadataTable, name: str) -> Definition:
    """Drop the definition of a name, and an unfinished rebuild of it; return the dropped definition."""

    def attempt() -> Definition:
        definition, before = definition_named(index, name), index.state.settings.definitions
        gone = [d.id for d in before if d.name.lower() == definition.name.lower()]
        change_definitions(index, [d for d in before if d.id not in gone], gone)
        return definition

    return retried(index, attempt)


def begin(index: MetadataTable, statement: RebuildIndex, schema: Schema) -> Definition:
    """Begin to build a deferred definition, or to build a partial one for a further partition; return it.

    A statement without a partition changes nothing if the definition is not deferred. Cost: one small commit.
    """

    def attempt() -> Definition:
        before = definition_named(index, statement.name)
        after = _begun(before, statement, schema)
        if after != before:
            others = index.state.settings.definitions
            change_definitions(index, [after if d.id == before.id else d for d in others], [])
        return after

    return retried(index, attempt)


def _begun(definition: Definition, statement: RebuildIndex, schema: Schema) -> Definition:
    """Return a definition as a REBUILD statement changes it."""
    deferred = definition.options.get(DEFERRED)
    if statement.only is None:
        begun = definition.without(DEFERRED)
        return _whole(definition, schema) if deferred == BY_PARTITION else begun
    condition, read = _checked_partitions(statement.only, schema)
    if definition.is_deferred:
        within = {WITHIN: definition.only} if definition.only else {}
        options = {**definition.options, DEFERRED: BY_PARTITION, **within}
        columns = _united(read, definition.only_columns)
        return replace(definition, options=options, only=condition, only_columns=columns)
    if not definition.only:
        hint = f"Leave it out: ALTER INDEX {statement.name} ON {statement.table} REBUILD."
        statement.only.refuse(f"index {definition.name} covers every partition", hint)
    columns_before = definition.only_columns
    both, columns = f"{definition.only} OR {condition}", _united(read, columns_before)
    names = with_old_names(schema, columns_before)
    covered = bind(definition.only, names)
    if _covers(covered, bind(both, names)) or bind(condition, schema) in _alternatives(covered):
        return definition
    return replace(definition, only=both, only_columns=columns)


def _whole(definition: Definition, schema: Schema) -> Definition:
    """Return a definition that was built by partition, extended to all files that it is to cover."""
    begun, within = definition.without(DEFERRED).without(WITHIN), definition.options.get(WITHIN, "")
    if not within:
        return replace(begun, only="", only_columns=())
    names, both = with_old_names(schema, definition.only_columns), f"{within} OR {definition.only}"
    return replace(begun, only=within if _covers(bind(within, names), bind(both, names)) else both)


def _united(read: Iterable[TermColumn], before: Iterable[TermColumn]) -> tuple[TermColumn, ...]:
    return tuple({column.label: column for column in (*read, *before)}.values())


def _covers(covered: Node, both: Node) -> bool:
    """Return whether a condition equals `both`, its OR with another one, as far as this can be told."""
    if isinstance(covered, Leaf) and isinstance(both, Leaf):
        return (covered.column, covered.true) == (both.column, both.true)
    return covered == both


def _alternatives(node: Node) -> tuple[Node, ...]:
    return node.children if isinstance(node, Or) else (node,)


_INTERNAL = frozenset({COUNTS_REASON, DEFERRED, REPLACES, WITHIN})
_PROPERTY, _COMMENT = "property:", "comment"


def statements_of(definitions: Iterable[Definition], schema: Schema, table: TableReference) -> list[Scripted]:
    """Return the statements that create definitions again on `table`; existing ones of a name stay.

    Columns have the names that they have now. An index that is being rebuilt is created once.
    """
    return [
        scripted
        for definition in definitions
        if REPLACES not in definition.options
        for scripted in _statements(definition, schema, table)
    ]


def _statements(definition: Definition, schema: Schema, table: TableReference) -> Iterator[Scripted]:
    options = definition.options
    by_partition = options.get(DEFERRED) == BY_PARTITION
    # Of an index that is built partition by partition, the condition says which are built.
    only = options.get(WITHIN, "") if by_partition else definition.only
    only = _by_present_names(only, definition.only_columns, schema) if only else ""
    zone = next((term.zone for term in definition.terms if term.zone != "UTC"), "UTC")
    notes = {key: text for key, text in options.items() if key.startswith(_PROPERTY)}
    create = CreateIndex(
        definition.name,
        table,
        tuple(map(WrittenExpression, _terms(definition, schema))) or (WrittenExpression(EVERY),),
        definition.kind,
        {
            key: text
            for key, text in options.items()
            if key not in _INTERNAL and key not in notes and key != _COMMENT
        },
        WrittenExpression(only) if only else None,
        deferred=DEFERRED in options,
        if_not_exists=True,
        properties={key.removeprefix(_PROPERTY): text for key, text in notes.items()},
        comment=options.get(_COMMENT, ""),
    )
    yield Scripted(create, zone)
    if by_partition:
        condition = _by_present_names(definition.only, definition.only_columns, schema)
        yield Scripted(RebuildIndex(definition.name, table, WrittenExpression(condition)), zone)


def _terms(definition: Definition, schema: Schema) -> list[str]:
    """Return the terms as SQL, by the present names of their columns."""
    if definition.is_of_column or definition.is_hashed:
        return _labels((column for term in definition.terms for column in term.columns), schema)
    return [_by_present_names(term.text, term.columns, schema) for term in definition.terms]


def _labels(columns: Iterable[TermColumn], schema: Schema) -> list[str]:
    """Return the present names of columns, each once; the old name of a column that is gone."""
    present = {column.id: column.label for column in every_column(schema)}
    return list(dict.fromkeys(present.get(column.id, column.label) for column in columns))


def _by_present_names(text: str, columns: Sequence[TermColumn], schema: Schema) -> str:
    """Return an expression in which columns have their present names, without the name of a table."""
    present = {
        tuple(name.lower() for name in name_parts(was.label)): (was.label, _labels([was], schema)[0])
        for was in columns
    }
    for tree in sorted(_columns(parse_predicate(text)), key=lambda tree: tree.start, reverse=True):
        names = tuple(name.lower() for name in tree.names)
        # What stands before the name of a column that the term reads is a table's.
        spans = ((first, end) for first in range(len(names)) for end in range(len(names), first, -1))
        first, end = next((span for span in spans if names[slice(*span)] in present), (0, 0))
        before, now = present.get(names[first:end], ("", ""))
        if first or before != now:
            fields = "".join(f".{quoted(name)}" for name in tree.names[end:])
            text = f"{text[: tree.start]}{now}{fields}{text[tree.end :]}"
    return text


def _columns(tree: Tree, arguments: frozenset[str] = frozenset()) -> Iterator[Tree]:
    """Yield the names of columns in an expression; `arguments`: those of the functions around it."""
    if tree.kind == "column" and tree.names[0].lower() not in arguments:
        yield tree
    if tree.kind == "lambda":
        arguments |= {name.lower() for name in tree.names}
    for inner in (tree.first, tree.second, *tree.items):
        if inner is not None:
            yield from _columns(inner, arguments)


def named_as(scripted: Scripted, table: TableReference) -> Scripted:
    """Return a statement for another table than the one that it was written for."""
    return replace(scripted, statement=replace(scripted.statement, table=table))


Partition = Mapping[str, str | None]
"""Physical name of a partition column to the log's text of its value in a file."""

_ONE_ROW = pa.table({"": pa.nulls(1)})


@dataclass(frozen=True)
class Requirements:
    """The definitions that the files of a table want, at one schema.

    `columns`: columns and terms that the table has values of; those of deferred definitions too, because
    files that have such a definition must be counted in it. `everywhere`: ids of the definitions that every
    file wants. `conditional`: ids of those that some partitions want, with their conditions on the partition.
    """

    columns: tuple[Column, ...]
    everywhere: tuple[str, ...]
    conditional: Mapping[str, Node]
    _ids_by_partition: dict[frozenset[tuple[str, str | None]], tuple[str, ...]] = field(
        default_factory=dict, compare=False
    )

    def of(self, partition: Partition) -> tuple[str, ...]:
        """Return the ids of the definitions that a file with these partition values wants.

        Cost: a condition is judged once per set of values.
        """
        if not self.conditional:
            return self.everywhere
        values = frozenset(partition.items())
        if values not in self._ids_by_partition:
            inside = (
                id_ for id_, node in self.conditional.items() if judged(node, _ONE_ROW, partition)[0][0]
            )
            self._ids_by_partition[values] = (*self.everywhere, *inside)
        return self._ids_by_partition[values]


def requirements_of(definitions: Iterable[Definition], schema: Schema) -> Requirements:
    """Return what files want at a schema.

    No file wants a deferred definition, one that reads a column that is gone or has another type, or one
    whose condition names a column that is no partition column of the schema.
    """
    definitions = tuple(definitions)
    columns = tuple(indexed_columns_of(definitions, schema))
    present = {column.id for column in columns}
    there = (d for d in definitions if d.id in present or not d.has_postings)
    ready = [d for d in there if not d.is_deferred]
    conditions = {d.id: _condition(d, schema) for d in ready if d.only}
    return Requirements(
        columns,
        tuple(d.id for d in ready if not d.only),
        {id_: node for id_, node in conditions.items() if node is not None},
    )


def _condition(definition: Definition, schema: Schema) -> Node | None:
    """Return a condition on partition columns; None if the schema lacks one of the columns that it names.

    A column that was renamed is the same column.
    """
    try:
        node = bind(definition.only, with_old_names(schema, definition.only_columns))
    except (PredicateError, UnknownColumnError, ColumnTypeError):
        return None
    return node if all(column.partition for column in columns_of(node)) else None
