"""An Iceberg table that random operations change, written by hand, and what each snapshot must hold.

The account is kept beside the files. Which rows are hidden is found naively: every delete of a snapshot is
held against every row of every file that it may apply to.
"""

from __future__ import annotations

import datetime
import json
import random
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from support.fuzzer.columns import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONGS,
    NTZ,
    PRICE,
    STRING,
    TIMESTAMP,
    Field,
    asked,
    pool,
    random_values,
)
from support.fuzzer.model import LiveFile, RandomHistory, Shape, State, logical, under
from support.iceberg_builder import (
    ADDED,
    DATA,
    DELETED,
    EQUALITY,
    EXISTING,
    IcebergBuilder,
    Json,
    Written,
    iceberg_type,
    imported_name,
)

TYPES = (INT, LONGS, FLOAT, DOUBLE, BOOLEAN, STRING, BINARY, DATE, TIMESTAMP, NTZ, PRICE, pa.list_(INT))
WIDER = {INT: LONGS, FLOAT: DOUBLE, PRICE: pa.decimal128(12, 2)}
NAMES = ("a", "b", "C", "d", "E", "f.g", "g h", "h")
DAYS = (
    None,
    *(
        datetime.date(*day)
        for day in ((1, 1, 1), (1582, 10, 10), (1969, 12, 31), (2013, 1, 1), (2024, 2, 29))
    ),
)
PARTS = ("EU", "a b", "x=y%z", "ä/1", "", None)
WINDOW = 10
KEY, PART, DAY = 1, 2, 3
SPECS = (
    (),
    (),
    ((PART, "identity"),),
    ((PART, "truncate[2]"),),
    ((PART, "void"),),
    ((DAY, "identity"),),
    ((DAY, "day"),),
    ((DAY, "month"),),
    ((DAY, "year"),),
    ((KEY, f"truncate[{WINDOW}]"),),
    ((KEY, "bucket[4]"),),
    ((PART, "identity"), (DAY, "month")),
)
FIXED = ("key", "part", "day")


@dataclass(frozen=True)
class Manifest:
    """A manifest of a snapshot: its description in the list and its live files."""

    listed: Json
    spec: int
    deletes: bool
    files: tuple[Written, ...]


@dataclass(frozen=True)
class Made:
    """A snapshot; `schema`: the id of its schema."""

    id: int
    number: int
    sequence: int
    schema: int
    parent: int | None
    manifests: tuple[Manifest, ...]

    def files(self, deletes: bool) -> list[Written]:
        """The live data files, or the live deletes."""
        return [file for m in self.manifests if m.deletes == deletes for file in m.files]


@dataclass
class Account:
    """What is known of a table besides its files."""

    made: dict[int, Made] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)
    content: dict[str, int] = field(default_factory=dict)
    hides: dict[tuple[str, Any], Mapping[str, frozenset[int]]] = field(default_factory=dict)
    """The rows that position deletes and vectors name, by file and offset."""
    equal: dict[str, tuple[Sequence[str], frozenset[tuple[Any, ...]]]] = field(default_factory=dict)
    """The physical key columns of equality deletes and the values."""


def key_of(file: Written) -> tuple[str, Any]:
    """What tells two files of a manifest apart: vectors share a file."""
    return file.path, file.entry["content_offset"]


def comparable(value: Any) -> Any:
    """A value that is equal to another where Java takes both to be equal."""
    if isinstance(value, float):
        return "NaN" if value != value else struct.pack(">d", value)
    return value


class IcebergHistory(RandomHistory):
    """Random operations on a hand-made table of format version 1, 2 or 3."""

    def __init__(self, path: str, rng: random.Random) -> None:
        super().__init__(path, rng)
        self.account = Account()
        self._ids = self._window = 0
        self.defaults: dict[str, Any] = {}
        self.maps = rng.random() < 0.4
        self.nested: dict[int, list[int]] = {}
        self.builder = IcebergBuilder(path, rng, rng.choice((1, 2, 2, 3, 3)))
        names = rng.sample(NAMES, rng.randint(3, 6))
        fixed = [
            self.new_field(name, type_) for name, type_ in zip(FIXED, (LONGS, STRING, DATE), strict=True)
        ]
        fields = [self.new_field(name, rng.choice(TYPES)) for name in names]
        inner = (self.new_field("city", STRING), self.new_field("n", rng.choice(TYPES[:8])))
        place = replace(self.new_field("place", pa.struct([])), fields=inner)
        self.nested = {place.id: [column.id for column in inner]}
        fields.append(place)
        self.reshape((*fixed, *fields))
        self.respec(rng.choice(SPECS))
        self.append()

    # The schema and the partition spec

    @property
    def shape(self) -> Shape:
        """The current columns."""
        return self.account.shapes[self.builder.schema]

    def new_field(self, name: str, type_: pa.DataType) -> Field:
        """Return a column that has never been; its physical name in the account is its id."""
        self._ids += 1
        return Field(name, type_, f"c{self._ids}", self._ids)

    def json(self, column: Field) -> Json:
        type_: Any
        if column.fields:
            type_ = {"type": "struct", "fields": [self.json(inner) for inner in column.fields]}
        elif pa.types.is_list(column.type):
            element = iceberg_type(column.type.value_type)
            type_ = {
                "type": "list",
                "element-id": 500 + column.id,
                "element": element,
                "element-required": False,
            }
        else:
            type_ = iceberg_type(column.type)
        out = {"id": column.id, "name": column.name, "required": False, "type": type_}
        if column.physical in self.defaults:
            out["initial-default"] = out["write-default"] = self.defaults[column.physical]
        return out

    def reshape(self, fields: Sequence[Field]) -> None:
        """Make a new schema the current one."""
        self.account.shapes.append(Shape(tuple(fields)))
        number = len(self.account.shapes) - 1
        schema = {"type": "struct", "schema-id": number, "fields": [self.json(f) for f in fields]}
        self.builder.schemas.append(schema)
        self.builder.schema = number
        if self.maps:
            names = [
                {"field-id": id_, "names": ["no", imported_name(id_)]} for id_ in range(1, self._ids + 1)
            ]
            by_id = dict(enumerate(names, 1))
            for above, ids in self.nested.items():
                by_id[above]["fields"] = [by_id.pop(id_) for id_ in ids]
            top = [*by_id.values()]
            self.builder.properties["schema.name-mapping.default"] = json.dumps(top)

    def respec(self, fields: Sequence[tuple[int, str]]) -> None:
        """Make a new partition spec the current one."""
        number = len(self.builder.specs)
        listed = [
            {
                "source-id": source,
                "field-id": 1000 + 10 * number + n,
                "name": f"p{number}_{n}",
                "transform": t,
            }
            for n, (source, t) in enumerate(fields)
        ]
        self.builder.specs.append({"spec-id": number, "fields": listed})
        self.builder.spec = number

    def partition(self, spec: int, rows: pa.Table) -> dict[int, Any]:
        """Return the partition tuple of rows that have one part, one day and keys of one window."""
        first = {name: rows[name][0].as_py() if len(rows) else None for name in FIXED}
        values = dict(zip((KEY, PART, DAY), first.values(), strict=True))
        fields = self.builder.specs[spec]["fields"]
        return {f["field-id"]: transformed(f["transform"], values[f["source-id"]]) for f in fields}

    def give_default(self, column: Field) -> None:
        """Give a new column a default value, which all older files then hold in every row."""
        values = [value for value in pool(column.type) if value == value and abs_of(value) < 1e300]
        value = self.rng.choice(values)
        self.defaults[column.physical] = value if isinstance(value, (bool, int, float, str)) else str(value)
        for number, content in self.contents.items():
            constant = pa.array([value] * len(content), column.type)
            self.contents[number] = content.append_column(column.physical, constant)

    # Data files and commits

    def rows(self, count: int) -> pa.Table:
        """Return random rows of new keys that may lie in one partition of any spec."""
        self._window += 1
        first = self._window * WINDOW
        drawn = [f for f in self.shape.fields if f.name not in FIXED]
        part, day = self.rng.choice(PARTS), self.rng.choice(DAYS)
        columns = [
            pa.array(range(first, first + count), LONGS),
            pa.array([part] * count, STRING),
            pa.array([day] * count, DATE),
            *(drawn_values(self.rng, f, count) for f in drawn),
        ]
        return pa.table(columns, names=[*FIXED, *(f.name for f in drawn)])

    def store(self, rows: pa.Table, spec: int | None = None, sequence: int = 0) -> Written:
        """Write a data file of rows under the current schema's logical names."""
        spec = self.builder.spec if spec is None else spec
        fields = [self.json(f) for f in self.shape.fields]
        is_imported = self.maps and self.rng.random() < 0.4
        folder, left_out = ("data/imported" if is_imported else None), 0
        part = rows["part"][0].as_py() if len(rows) else ""
        transforms = [(f["source-id"], f["transform"]) for f in self.builder.specs[spec]["fields"]]
        if is_imported and (PART, "identity") in transforms and part != "":
            text = "__HIVE_DEFAULT_PARTITION__" if part is None else quote(part, safe=" ")
            folder, left_out = f"data/{imported_name(PART)}={text}", PART
        file = self.builder.data_file(
            rows.select([f.name for f in self.shape.fields]),
            fields,
            self.partition(spec, rows),
            spec,
            folder,
            left_out,
            row_group_size=self.rng.choice((5, 1000)),
            use_dictionary=self.rng.random() < 0.5,
            compression=self.rng.choice(("none", "gzip", "zstd")),
        )
        number = len(self.contents)
        self.contents[number] = pa.table(
            [_physical(rows[f.name].combine_chunks(), f) for f in self.shape.fields],
            names=[f.physical for f in self.shape.fields],
        )
        self.account.content[file.path] = number
        return replace(file, sequence=sequence)

    def visible(self, file: Written, made: Made) -> pa.Table:
        """Return the rows of a live file that are not hidden, under the columns of today."""
        table = under(self.contents[self.account.content[file.path]], self.shape.fields)
        hidden = self.hidden(file, made.files(deletes=True))
        return table.filter(pa.array([row not in hidden for row in range(len(table))], pa.bool_()))

    @property
    def now(self) -> Made | None:
        """The current snapshot."""
        return None if self.builder.current is None else self.account.made[self.builder.current]

    def live(self) -> list[Written]:
        """The live data files."""
        return [] if self.now is None else self.now.files(deletes=False)

    def commit(
        self,
        added: Iterable[Written],
        gone: Collection[tuple[str, Any]] = (),
        operation: str = "append",
        to_main: bool = True,
        merge: bool = False,
    ) -> bool:
        """Add a snapshot with some files more and some less; `merge`: write all manifests anew."""
        id_ = self.builder.new_snapshot()
        added = [file if file.sequence else replace(file, sequence=self.builder.sequence) for file in added]
        manifests: list[Manifest] = []
        rewritten: dict[tuple[int, bool], list[tuple[int, Written]]] = {}
        for manifest in () if self.now is None else self.now.manifests:
            touched = any(key_of(file) in gone for file in manifest.files)
            if not touched and not merge:
                manifests.append(manifest)
                continue
            entries = [(DELETED if key_of(file) in gone else EXISTING, file) for file in manifest.files]
            if not merge:
                manifests.append(self._manifest(entries, manifest.spec, manifest.deletes, id_))
            else:
                rewritten.setdefault((manifest.spec, manifest.deletes), []).extend(entries)
        for file in added:
            rewritten.setdefault((file.spec, file.content != DATA), []).append((ADDED, file))
        for (spec, deletes), entries in rewritten.items():
            manifests.append(self._manifest(entries, spec, deletes, id_))
        self.builder.add_snapshot(id_, [m.listed for m in manifests], operation, to_main)
        number = (
            2 * (2**43 + self.builder.sequence) if self.builder.version > 1 else 2 * self.builder.clock_ms
        )
        parent = self.builder.snapshots[-1].get("parent-snapshot-id")
        self.account.made[id_] = Made(
            id_, number, self.builder.sequence, self.builder.schema, parent, tuple(manifests)
        )
        self.builder.commit()
        return True

    def _manifest(self, entries: list[tuple[int, Written]], spec: int, deletes: bool, id_: int) -> Manifest:
        listed = self.builder.manifest(entries, spec, deletes, id_)
        files = tuple(file for status, file in entries if status != DELETED)
        return Manifest(listed, spec, deletes, files)

    def append(self) -> bool:
        """Append a few data files."""
        count = self.rng.choice((1, 1, 2, 3))
        return self.commit([self.store(self.rows(self.rng.randint(1, WINDOW))) for _ in range(count)])

    def operations(self) -> Sequence[tuple[str, Callable[[Any], bool]]]:
        from support.fuzzer.iceberg_operations import OPERATIONS

        return OPERATIONS

    # The account

    def hidden(self, file: Written, deletes: Iterable[Written]) -> frozenset[int]:
        """Return the rows that deletes hide from a data file, by the rules of the specification."""
        deletes = list(deletes)
        vectors = [
            d
            for d in deletes
            if d.entry["content_offset"] is not None and file.path in self.account.hides[key_of(d)]
        ]
        rows: set[int] = set()
        for delete in deletes:
            same = (delete.spec, tuple(delete.partition.values())) == (
                file.spec,
                tuple(file.partition.values()),
            )
            if delete.content == EQUALITY:
                transforms = [f["transform"] for f in self.builder.specs[delete.spec]["fields"]]
                everywhere = all(transform == "void" for transform in transforms)
                if file.sequence < delete.sequence and (same or everywhere):
                    rows |= self._equal(file, delete)
            elif (delete in vectors or (same and not vectors)) and file.sequence <= delete.sequence:
                rows |= self.account.hides[key_of(delete)].get(file.path, frozenset())
        return frozenset(rows)

    def _equal(self, file: Written, delete: Written) -> set[int]:
        names, values = self.account.equal[delete.path]
        content = self.contents[self.account.content[file.path]]
        columns = [
            content[name].to_pylist() if name in content.column_names else [None] * len(content)
            for name in names
        ]
        tuples = (tuple(map(comparable, row)) for row in zip(*columns, strict=True))
        return {row for row, keys in enumerate(tuples) if keys in values}

    def state(self, made: Made, schema: int, odd: bool = False) -> State:
        """Return the state of a snapshot under a schema."""
        deletes = made.files(deletes=True)
        files = {
            quote(file.path): LiveFile(self.account.content[file.path], {}, self.hidden(file, deletes))
            for file in made.files(deletes=False)
        }
        shape = self.account.shapes[schema]
        return State(made.number + odd, shape, files, self.contents, asked(shape.fields, ()))

    def head(self) -> State:
        """Return the newest version, which has the current schema."""
        assert self.now is not None
        return self.state(self.now, self.builder.schema, self.now.schema != self.builder.schema)

    def readable(self) -> list[State]:
        """Return the versions that can be read, the head last."""
        known = [self.account.made[entry["snapshot-id"]] for entry in self.builder.snapshots]
        others = [made for made in known if made is not self.now]
        return [*(self.state(made, made.schema) for made in others), self.head()]


def transformed(transform: str, value: Any) -> Any:
    """Return the value of a partition field; that of a bucket is any number that belongs to the value."""
    if value is None or transform == "void":
        return None
    if transform == "identity":
        return value
    if transform.startswith("truncate"):
        width = int(transform[len("truncate[") : -1])
        return value[:width] if isinstance(value, str) else value - value % width
    if transform.startswith("bucket"):
        return value // WINDOW % 4
    if transform == "day":
        return value
    years = value.year - 1970
    return years if transform == "year" else years * 12 + value.month - 1


def abs_of(value: Any) -> float:
    """Return the size of a number; that of anything else is 0."""
    return abs(float(value)) if isinstance(value, (int, float)) else 0.0


def drawn_values(rng: random.Random, column: Field, count: int) -> pa.Array:
    """Draw values of a column; the fields of a struct are under their logical names."""
    return logical(random_values(rng, column, count), column, count)


def _physical(stored: pa.Array, column: Field) -> pa.Array:
    """Rename the fields of a struct to their physical names."""
    if not column.fields:
        return stored
    parts = [_physical(stored.field(n), inner) for n, inner in enumerate(column.fields)]
    return pa.StructArray.from_arrays(parts, names=[f.physical for f in column.fields], mask=stored.is_null())
