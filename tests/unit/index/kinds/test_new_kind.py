"""A kind of index is one module, and its name in `schemas`: here, the greatest value of each file."""

from __future__ import annotations

from pathlib import Path

from support.product import printed_by, product_in

KIND = '''
"""Kind `greatest`: the greatest values of columns in a data file."""

from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tailbit.base.dataclass import dataclass
from tailbit.index.evaluation.row_space import EMPTY, Bounds
from tailbit.index.evaluation.row_space import Access, claims
from tailbit.index.kinds.files import FILES, RecordedPlaces
from tailbit.index.kinds.kind import Definable, Kind, Problem
from tailbit.index.kinds.settings import BLOOM_FORMAT
from tailbit.index.model import Definition
from tailbit.index.predicate.tree import Leaf
from tailbit.tables.parquet.data_file import read_columns


@dataclass(frozen=True)
class GreatestAccess(Access):
    definition: Definition
    rows: pa.Table
    recorded: pa.Table

    def serves(self, node):
        ids = [column.id for term in self.definition.terms for column in term.columns]
        return isinstance(node, Leaf) and node.column.id in ids and bool(node.true.listed(8))

    def bounds(self, node, space):
        if not self.serves(node):
            return Bounds.between(EMPTY, space.visible)
        own = self.rows.filter(pc.equal(self.rows["column"], node.column.id))
        greatest = dict(zip(own["path"].to_pylist(), own["greatest"].to_pylist()))
        places = RecordedPlaces(self.recorded).rows_at(space)
        paths = [self.recorded["path"][at].as_py() for at in places.tolist()]
        least = min(node.true.listed(8))
        may = np.array([greatest.get(path, least) >= least for path in paths], dtype=bool)
        return Bounds.between(EMPTY, claims(space.bases[may], space.rows[may]) & space.visible)


class GreatestKind(Kind):
    name: ClassVar = "greatest"
    definable: ClassVar = {
        "greatest": Definable(
            2,
            {"nulls": ("first", "last")},
            ("maximum",),
            "greatest values are",
            lambda column: None if column.type.name == "long" else "{term} is no BIGINT",
        )
    }
    defined: ClassVar = True
    schema: ClassVar = pa.schema([("column", pa.string()), ("path", pa.string()), ("greatest", pa.int64())])
    sorted_by: ClassVar = ("column", "path")

    def format_of(self, definition):
        return BLOOM_FORMAT

    def reader(self, view):
        return pa.concat_tables([self.schema.empty_table(), *self.read_all(view)])

    def accesses(self, view, columns):
        recorded = view.reader(FILES).table()
        return [GreatestAccess(made, view.reader(self), recorded) for made in self.definitions(view)]

    def build(self, entering, columns):
        for column in sorted(columns, key=lambda column: column.id):
            for file in sorted(entering, key=lambda file: file.slice.path):
                values = read_columns(file.open(), [column])[column.id]
                row = [[column.id], [file.slice.path], [pc.max(values).as_py()]]
                yield pa.table(row, schema=self.schema)

    def check(self, view, source):
        for row in view.reader(self).to_pylist():
            if row["greatest"] is None:
                yield Problem(f"greatest value in {row['path']}", "there is none")


GREATEST = GreatestKind()
'''

PROGRAM = """
import sys

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import tailbit
from tailbit.errors import StatementError
from tailbit.index.kinds.schemas import KINDS

path = sys.argv[1]
for first in range(0, 1000, 100):
    write_deltalake(path, pa.table({"k": range(first, first + 100), "s": ["x"] * 100}), mode="append")
tailbit.sql(f"CREATE INDEX g ON '{path}' USING maximum (k) OPTIONS (nulls = 'last')")
index = tailbit.open(path)
settings = index._needed().state.settings
(definition,) = settings.definitions
assert (definition.kind, dict(definition.options)) == ("greatest", {"nulls": "last"})
assert settings.format == KINDS["greatest"].format_of(definition) == 9
for written, reason in {
    "greatest (s)": "s is no BIGINT",
    "greatest (k + 1)": "greatest values are of columns",
    "greatest (k, s, k)": "has 2 terms at most",
    "greatest (k) OPTIONS (nulls = 'gone')": "nulls is not 'gone'",
}.items():
    with pytest.raises(StatementError, match=reason.replace("+", "[+]")):
        tailbit.sql(f"CREATE INDEX other ON '{path}' USING {written}")
assert index.where("k = 950").count() == 1
assert sum(len(bounds.maybe) for _, bounds in index.where("k = 950")._selection.bounds) == 100
index.compact()
assert not index.verify().problems
assert index.where("k IN (250, 950)").count() == 2
files = tailbit.open(path)._needed().state.files
print(sum(path.startswith("kind=greatest/") for path in files))
"""


def test_a_kind_that_comes_is_one_module_and_a_name_beside_the_others(tmp_path: Path) -> None:
    package = product_in(tmp_path / "tree")
    kinds = package / "index" / "kinds"
    (kinds / "greatest.py").write_text(KIND)
    schemas = (kinds / "schemas.py").read_text()
    for present, new in {
        "from tailbit.index.kinds.hidden_rows": "from tailbit.index.kinds.greatest import GREATEST\n",
        "        BLOOM_FILTER,\n": "        GREATEST,\n",
    }.items():
        schemas = schemas.replace(present, new + present)
    (kinds / "schemas.py").write_text(schemas)
    assert int(printed_by(PROGRAM, tmp_path / "t", package)) == 1
