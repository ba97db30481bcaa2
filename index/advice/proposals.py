"""Proposals of index definitions of every kind, as statements, from questions and a sample of the data.

| kind | proposed for | if |
|---|---|---|
| bitmap of a column | a column that is advised | a smaller index does not serve all questions on it |
| bitmap of an expression | an operand of a condition | half of its column's bytes; or of several columns |
| bitmap of several columns | columns restricted to few values together | half of what their bitmaps read |
| column_stats | columns asked by ranges, near values stored together | no bitmap is advised, or a large one |
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field
from typing import NamedTuple

import numpy as np

from tailbit.base.dataclass import dataclass
from tailbit.base.errors import ColumnTypeError, DataFileError, TailbitError, UsageError
from tailbit.index.advice.estimate import Estimate, Sample, coded_values, estimate, measured, values_of
from tailbit.index.expression.indexed_term import IndexedTerm, IndexedTuple
from tailbit.index.functions.tree import Call, Ref, columns_in
from tailbit.index.keys import posting_type_of
from tailbit.index.model import BITMAP, Definition, Term, new_id
from tailbit.index.predicate.images import few_values
from tailbit.index.predicate.tree import And, Leaf, Node, columns_of, nodes_of
from tailbit.index.sql.bind import bind
from tailbit.index.sql.ddl.statements import CreateIndex, TableReference, WrittenExpression
from tailbit.index.sql.syntax.parser import parse_predicate
from tailbit.index.sql.syntax.tokens import tokens_of
from tailbit.index.sql.syntax.tree import Tree
from tailbit.index.sql.terms import column_of, expression_of, kept_columns, term_of
from tailbit.tables.model import Column
from tailbit.tables.schema import Schema, name_parts
from tailbit.tables.snapshot import Snapshot

_COMMENTS = ("#", "--")

_ENDS = frozenset("GROUP ORDER HAVING LIMIT OFFSET QUALIFY CLUSTER DISTRIBUTE SORT WINDOW".split())
"""Keywords that end the WHERE clause of a SELECT, outside parentheses."""

_LOGIC = frozenset(("and", "or", "not", "parenthesis"))
_CONDITIONS = frozenset(("compare", "in", "between", "like", "is"))


@dataclass(frozen=True, slots=True)
class Question:
    """The condition of a question: its text, and the tree bound to the columns of a schema.

    `table`: the table's own name, which may stand before the name of a column.
    """

    text: str
    node: Node
    schema: Schema
    table: str = ""

    def operands(self) -> Iterator[tuple[Term, Ref | Call]]:
        """Yield the columns and expressions that the conditions compare and that an index could keep."""
        for tree in _operands(parse_predicate(self.text)):
            text = self.text[tree.start : tree.end]
            try:
                term = term_of(text, self.schema, table=self.table)
                expression = expression_of(text, self.schema, table=self.table)
            except TailbitError:
                continue
            if columns_in(expression) and isinstance(expression, (Ref, Call)):
                yield term, expression


def _operands(tree: Tree) -> Iterator[Tree]:
    """Yield the operands of the comparisons in a condition."""
    operands = [operand for operand in (tree.first, tree.second, *tree.items) if operand is not None]
    if tree.kind in _LOGIC:
        for operand in operands:
            yield from _operands(operand)
    elif tree.kind in _CONDITIONS:
        yield from map(_bare, operands)


def _bare(tree: Tree) -> Tree:
    """Return the operand without the parentheses around it."""
    return _bare(tree.first) if tree.kind == "parenthesis" and tree.first is not None else tree


def read_questions(lines: Iterable[str], schema: Schema, table: str) -> list[Question]:
    """Return the conditions of the questions, bound to a schema; a SELECT without WHERE has none.

    Blank lines and those that begin with # or -- are no questions.

    Raises:
        UsageError: a question is not understood; says in which line.
    """
    out = []
    for number, line in enumerate(lines, 1):
        question = line.strip().rstrip(";")
        if not question or question.startswith(_COMMENTS):
            continue
        try:
            where = _where(question) if question[:6].upper() == "SELECT" else question
            if where is not None:
                node = bind(where.strip(), schema, table=table)
                out.append(Question(where.strip(), node, schema, table))
        except UsageError as wrong:
            raise UsageError(
                reason=f"question {number} is not understood: {wrong}",
                hint="Write a predicate a line, or a SELECT of this table alone with its WHERE.",
            ) from wrong
    return out


def _where(statement: str) -> str | None:
    """Return the text of the WHERE clause of a SELECT; None if it has none."""
    depth, start = 0, None
    for token in tokens_of(statement):
        if token.kind == "sign":
            depth += (token.text == "(") - (token.text == ")")
        elif depth == 0 and token.kind == "word" and token.text == "WHERE":
            start = token.end
        elif depth == 0 and start is not None and token.kind == "word" and token.text in _ENDS:
            return statement[start : token.start]
    return None if start is None else statement[start:]


COLUMN_STATS = "column_stats"

SMALLER = 0.5
"""An index of an expression or of several columns is proposed if it takes at most this share of the bytes."""

JOINT = 0.5
"""Values lie together if a block of rows spans at most this share of a column's keys, on average."""

LARGE = 0.25
"""Statistics are proposed in place of a bitmap of more than this share of the stored column's bytes."""

_CELL_BYTES = 14
"""Bytes of the statistics of one column in one row group."""

_MOST = 16
"""Most expressions, and most sets of columns, that are measured: those that most questions have."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """An index that is worth its cost.

    `statement`: the CREATE INDEX that makes it. `questions`: number of questions that it serves, 0 if none
    are known. `bytes`: its estimated size. `question_bytes`, `scan_bytes`: what a question for one value
    reads of the index, and what a scan reads instead. `files_scanned`: number of data files, out of `files`,
    that a question still reads if only this index serves it.
    """

    statement: str
    name: str
    kind: str
    terms: tuple[str, ...]
    questions: int
    bytes: int
    question_bytes: int
    scan_bytes: int
    files_scanned: int
    files: int


class _Candidate(NamedTuple):
    """An index to propose; `files_open`: data files that a question still reads."""

    name: str
    kind: str
    terms: tuple[str, ...]
    questions: int
    sizes: Estimate
    files_open: int


@dataclass(frozen=True)
class Demand:
    """The columns and expressions that the questions ask about, each with its number of questions.

    `columns`: ids of columns outside of expressions. `ranges`, `points`: ids of columns restricted to many,
    to few values. `expressions`: keys of expressions. `joint`: ids of the columns that one conjunction
    restricts to few values each.
    """

    columns: Counter[str] = field(default_factory=Counter)
    ranges: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    expressions: Counter[str] = field(default_factory=Counter)
    joint: Counter[tuple[str, ...]] = field(default_factory=Counter)
    terms: dict[str, tuple[Term, Call]] = field(default_factory=dict)

    @classmethod
    def of(cls, questions: Iterable[Question]) -> Demand:
        """Return what some questions ask about."""
        collected = cls()
        for question in questions:
            collected.add(question)
        return collected

    def add(self, question: Question) -> None:
        """Add a question; a column or expression that the question names several times counts once."""
        operands = list(question.operands())
        calls = [(term, e) for term, e in operands if isinstance(e, Call)]
        within = {column.id for _, e in calls for column in columns_in(e)}
        direct = {e.column.id for _, e in operands if isinstance(e, Ref)}
        self.expressions.update({e.key for _, e in calls})
        self.terms.update({e.key: (term, e) for term, e in calls if e.key not in self.terms})
        self.columns.update(direct | {column.id for column in columns_of(question.node)} - within)
        leaves = [node for node in nodes_of(question.node) if isinstance(node, Leaf)]
        few = {leaf.column.id for leaf in leaves if _is_few(leaf)}
        self.points.update(few)
        self.ranges.update({leaf.column.id for leaf in leaves} - few)
        conjunctions = (node for node in nodes_of(question.node) if isinstance(node, And))
        self.joint.update({some for node in conjunctions if 2 <= len(some := _few_of(node)) <= 4})


def _is_few(leaf: Leaf) -> bool:
    return few_values(leaf.true, leaf.column.type) is not None


def _few_of(node: And) -> tuple[str, ...]:
    """Return the ids of the columns that a conjunction restricts to few values, in order of ids."""
    leaves = [child for child in node.children if isinstance(child, Leaf)]
    return tuple(sorted({leaf.column.id for leaf in leaves if _is_few(leaf) and not leaf.column.partition}))


@dataclass(frozen=True)
class Proposer:
    """The proposals for a table; `estimates`: by column id; `advised`: ids of the columns worth an index."""

    snapshot: Snapshot
    sample: Sample
    table: TableReference
    existing: Sequence[Definition]
    demand: Demand | None
    estimates: Mapping[str, Estimate]
    advised: Sequence[str]

    def proposals(self) -> tuple[Proposal, ...]:
        """Return what is proposed and does not exist. Cost: measures the terms on the sample."""
        out = []
        used_names = {definition.name.lower() for definition in self.existing}
        for name, kind, terms, questions, sizes, files_open in self._candidates():
            unused = next(n for n in _numbered(name) if n.lower() not in used_names)
            used_names.add(unused.lower())
            written = tuple(map(WrittenExpression, terms))
            statement = CreateIndex(unused, self.table, written, kind)
            reads = (sizes.bytes, sizes.question_bytes, sizes.scan_bytes)
            files = len(self.snapshot.files)
            out.append(Proposal(str(statement), unused, kind, terms, questions, *reads, files_open, files))
        return tuple(out)

    def _candidates(self) -> Iterator[_Candidate]:
        """Yield the indexes to propose, each with a name that another index may have already."""
        expressions = dict(self._expressions())
        # A question by an expression that has no index of its own needs the bitmap of its column.
        needed = self._read_by_others({*expressions, *self._known_keys()}) & set(self.advised)
        stats = [(column, share) for column, share in self._statistics() if column.id not in needed]
        covered = self._covered_by({*expressions, *self._known_keys()}) | {column.id for column, _ in stats}
        covered |= {column.id for column in self._indexed_columns()}
        with_statistics = self._with_statistics()
        stats = [(column, share) for column, share in stats if column.id not in with_statistics]
        leaves = {leaf.id: leaf for leaf in self.snapshot.schema.leaves()}
        demand = Demand() if self.demand is None else self.demand
        for id_ in (id_ for id_ in self.advised if id_ not in covered):
            label = leaves[id_].label
            name = ".".join(name_parts(label))
            yield _Candidate(name, BITMAP, (label,), demand.columns[id_], self.estimates[id_], 0)
        for key, (term, sizes) in expressions.items():
            yield _Candidate(_named([term.text]), BITMAP, (term.text,), demand.expressions[key], sizes, 0)
        for ids, sizes in self._tuples():
            labels, questions = tuple(leaves[id_].label for id_ in ids), demand.joint[tuple(sorted(ids))]
            yield _Candidate(_named(labels), BITMAP, labels, questions, sizes, 0)
        if stats:
            questions = max(demand.ranges[column.id] for column, _ in stats)
            share = max(share for _, share in stats)
            files_open = max(1, math.ceil(share * len(self.snapshot.files)))
            sizes = self._size_of_statistics([column for column, _ in stats], share)
            labels = tuple(column.label for column, _ in stats)
            yield _Candidate("statistics", COLUMN_STATS, labels, questions, sizes, files_open)

    def _indexed_columns(self) -> Iterator[Column]:
        """Yield the columns and terms that have bitmaps."""
        for definition in self.existing:
            column = column_of(definition, self.snapshot.schema)
            if column is not None:
                yield column

    def _known_keys(self) -> set[str]:
        """Return the keys of the expressions that have bitmaps."""
        return {column.key for column in self._indexed_columns() if isinstance(column, IndexedTerm)}

    def _with_statistics(self) -> set[str]:
        """Return the ids of the columns that have statistics in the index."""
        kinds = [definition for definition in self.existing if definition.kind == COLUMN_STATS]
        return {column.id for existing in kinds for column in kept_columns(existing, self.snapshot.schema)}

    def _expressions(self) -> Iterator[tuple[str, tuple[Term, Estimate]]]:
        """Yield the expressions to propose, by key."""
        if self.demand is None:
            return
        existing_keys = self._known_keys()
        for key, _ in self.demand.expressions.most_common(_MOST):
            term, expression = self.demand.terms[key]
            sizes = None if key in existing_keys else self._measured([term])
            if sizes is None or not sizes.gains:
                continue
            columns = columns_in(expression)
            alone = self.estimates.get(columns[0].id) if len(columns) == 1 else None
            if len(columns) > 1 or alone is None or sizes.bytes <= SMALLER * alone.bytes:
                yield key, (term, sizes)

    def _tuples(self) -> Iterator[tuple[tuple[str, ...], Estimate]]:
        """Yield the ids of columns to index together; the column that most questions restrict is first."""
        if (demand := self.demand) is None:
            return
        leaves = {leaf.id: leaf for leaf in self.snapshot.schema.leaves()}
        existing = {
            frozenset(column_of_tuple.id for column_of_tuple in column.parts)
            for column in self._indexed_columns()
            if isinstance(column, IndexedTuple)
        }
        for ids, _ in demand.joint.most_common(_MOST):
            singles = [self.estimates.get(id_) for id_ in ids]
            if frozenset(ids) in existing or None in singles:
                continue
            ordered = tuple(sorted(ids, key=lambda id_: (-demand.points[id_], id_)))
            sizes = self._measured([term_of(leaves[id_].label, self.snapshot.schema) for id_ in ordered])
            apart = sum(single.question_bytes for single in singles if single is not None)
            if sizes is not None and sizes.gains and sizes.question_bytes <= SMALLER * apart:
                yield ordered, sizes

    def _measured(self, terms: Sequence[Term]) -> Estimate | None:
        """Return the estimate of the bitmap of some terms; None if they cannot be read."""
        definition = Definition(new_id(), "", BITMAP, tuple(terms))
        column = column_of(definition, self.snapshot.schema)
        try:
            measure = None if column is None else measured(self.sample.blocks, column)
        except (DataFileError, ColumnTypeError):
            return None
        return None if measure is None else estimate(measure, self.sample.table_rows)

    def _covered_by(self, expressions: Set[str]) -> set[str]:
        """Return the ids of the columns that questions name only within some expressions, given by key."""
        if self.demand is None:
            return set()
        proposed = [columns_in(e) for key, (_, e) in self.demand.terms.items() if key in expressions]
        within = {column.id for columns in proposed for column in columns}
        return {id_ for id_ in within - self._read_by_others(expressions) if not self.demand.columns[id_]}

    def _read_by_others(self, expressions: Set[str]) -> set[str]:
        """Return the ids of the columns that questions read by expressions other than those of given keys."""
        terms = {} if self.demand is None else self.demand.terms
        others = [columns_in(e) for key, (_, e) in terms.items() if key not in expressions]
        return {column.id for columns in others for column in columns}

    def _statistics(self) -> list[tuple[Column, float]]:
        """Return the columns that statistics are to serve, and the share of the keys that a block spans."""
        indexed = {column.id for column in self._indexed_columns()}
        out = []
        for leaf in self.snapshot.schema.leaves():
            if leaf.id in indexed or not self._wants_statistics(leaf):
                continue
            share = self._span(leaf)
            if share <= JOINT:
                out.append((leaf, share))
        return out

    def _wants_statistics(self, column: Column) -> bool:
        """Return whether ranges are asked of a column whose bitmap is not advised, or is large."""
        sizes = self.estimates.get(column.id)
        if sizes is None or sizes.distinct <= 1:
            return False
        if self.demand is None:
            return column.id not in self.advised
        if not self.demand.ranges[column.id]:
            return False
        large = sizes.bytes > LARGE * sizes.stored_bytes and not self.demand.points[column.id]
        return large or column.id not in self.advised

    def _span(self, column: Column) -> float:
        """Return the share of a column's keys between the least and the greatest of a block, on average."""
        blocks = self.sample.blocks
        if len(blocks) < 2:
            return 1.0
        try:
            coded = coded_values(values_of(blocks, column), column, posting_type_of(column.type))
        except (DataFileError, ColumnTypeError):
            return 1.0
        position, spans = 0, []
        for block in blocks:
            present = np.flatnonzero(coded.counts(position, position + block.rows))
            spans.append(0 if not len(present) else int(present[-1] - present[0] + 1))
            position += block.rows
        return float(np.mean(spans)) / max(1, len(coded.keys))

    def _size_of_statistics(self, columns: Sequence[Column], share: float) -> Estimate:
        """Return the sizes of statistics: a cell per column and row group."""
        groups = {(b.file.path, g) for b in self.sample.blocks for g in range(b.file.metadata.num_row_groups)}
        rows = sum({b.file.path: b.file.metadata.num_rows for b in self.sample.blocks}.values())
        cells = math.ceil(len(groups) * self.sample.table_rows / max(1, rows))
        size = cells * _CELL_BYTES * len(columns)
        scan = max(self.estimates[column.id].scan_bytes for column in columns)
        return Estimate(0, size, 0.0, 0, 0.0, 0.0, size + round(share * scan), scan)


def _named(terms: Sequence[str]) -> str:
    """Return a name for an index of some terms.

    >>> _named(["date_trunc('HOUR', at)"]), _named(["carrier", "dest"])
    ('by_date_trunc_hour_at', 'by_carrier_dest')
    """
    return "by_" + re.sub(r"\W+", "_", "_".join(terms)).strip("_").lower()[:60]


def _numbered(name: str) -> Iterator[str]:
    """Yield a name, then the same name with `_2`, `_3` and so on after it."""
    yield name
    number = 2
    while True:
        yield f"{name}_{number}"
        number += 1
