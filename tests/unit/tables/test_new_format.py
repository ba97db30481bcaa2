"""A format of tables is one folder, and its name in `formats`: here, a folder of lists of files."""

from __future__ import annotations

from pathlib import Path

from support.product import printed_by, product_in

FORMAT = '''
"""Tables of lists: `_lists/N.json` has the time, the columns and the files of version N."""

import hashlib
import json
from dataclasses import dataclass

import pyarrow as pa

from tailbit.base.errors import NotATableError, VersionNotFoundError
from tailbit.tables.model import Changes, Column, CommitInfo, DataType, FileSlice, Fingerprint, SliceChange
from tailbit.tables.schema import Schema
from tailbit.tables.snapshot import FileList, Snapshot, stored_columns, stored_schema
from tailbit.tables.table import Format, FormatWords, Table

STORED = stored_schema(pa.string())
WORDS = FormatWords(kind="table of lists", log="_lists", cleaner="rm", sql_name="listed")


class ListedFiles(FileList):
    @classmethod
    def stored(cls, slices):
        return stored_columns(slices, STORED, [None] * len(slices), [None] * len(slices))

    def _hidden_ids(self, stored):
        return stored

    def _hidden(self, stored):
        return None

    def _statistics(self, text):
        return None


@dataclass
class ListedTable(Table):
    words = WORDS
    storage: object

    def _numbers(self):
        return sorted(int(entry.name.removesuffix(".json")) for entry in self.storage.list(WORDS.log))

    def _bytes(self, version):
        return (self.root_folder / f"{version}.json").read_bytes()

    @property
    def root_folder(self):
        from pathlib import Path

        return Path(self.root) / WORDS.log

    def _read(self, version):
        if version not in self._numbers():
            ends = (self.earliest(), self.head())
            raise VersionNotFoundError(
                version=version, path=self.root, reason="no list", earliest=ends[0], latest=ends[1]
            )
        return json.loads(self._bytes(version))

    def _slices(self, version):
        return {
            name: FileSlice(name, size, 0, None) for name, size in self._read(version)["files"].items()
        }

    def head(self):
        return self._numbers()[-1]

    def earliest(self):
        return self._numbers()[0]

    def snapshot(self, version=None):
        version = self.head() if version is None else version
        read = self._read(version)
        columns = [Column((name,), (name,), DataType(type_)) for name, type_ in read["columns"].items()]
        files = ListedFiles.of(list(self._slices(version).values()), f"{version}.json")
        return Snapshot(self.root, version, read["time"], files, lambda: Schema(tuple(columns)))

    def versions(self, first, last, most=None):
        return [number for number in self._numbers() if first <= number <= last][:most]

    def follows(self, version):
        return version + 1 in self._numbers()

    def changes(self, first, last):
        old = self._slices(first - 1) if first else {}
        new = self._slices(last)
        changed = sorted(name for name in old.keys() | new.keys() if (name in old) != (name in new))
        slices = tuple(SliceChange(name, old.get(name), new.get(name)) for name in changed)
        commits = [CommitInfo(number, self.commit_timestamp(number), "", 0, 0, 0) for number in
                   self.versions(first, last)]
        return Changes(first, last, slices, tuple(commits), False)

    def commit_timestamp(self, version):
        return self._read(version)["time"]

    def version_at(self, timestamp_ms):
        return max(number for number in self._numbers() if self.commit_timestamp(number) <= timestamp_ms)

    def fingerprint(self, version):
        if version not in self._numbers():
            return None
        return Fingerprint(version, hashlib.sha256(self._bytes(version)).hexdigest(), "")

    def fingerprint_stat(self, version):
        return self.fingerprint(version)


class Listed(Format):
    words = WORDS

    def open(self, storage):
        if not storage.exists(WORDS.log):
            raise NotATableError(
                path=storage.root, reason="no list", kind=WORDS.kind, log=WORDS.log, hint="Give another."
            )
        return ListedTable(storage)


FORMAT = Listed()
'''

PROGRAM = """
import json, sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner

import tailbit
from tailbit.cli.main import cli

root = Path(sys.argv[1])
(root / "_lists").mkdir(parents=True)


def commit(version, *numbers):
    sizes = {}
    for number in numbers:
        texts = ["odd" if number % 2 else "even"] * 10
        rows = pa.table({"k": range(10 * number, 10 * number + 10), "s": texts})
        if not (root / f"{number}.parquet").exists():
            pq.write_table(rows, root / f"{number}.parquet")
        sizes[f"{number}.parquet"] = (root / f"{number}.parquet").stat().st_size
    text = json.dumps({"time": 1000 * version, "columns": {"k": "long", "s": "string"}, "files": sizes})
    (root / "_lists" / f"{version}.json").write_text(text)


commit(0, 0, 1)
run = CliRunner().invoke(cli, ["run", str(root), "--columns", "k,s", "--once", "--quiet"])
assert run.exit_code == 0, run.output
table = tailbit.open(str(root))
answer = table.where("s = 'odd'")
assert (answer.count(), answer.files_scanned) == (10, 0)
commit(1, 0, 2, 3)
assert (table.where("s = 'odd' AND k > 31").count(), table.where("k < 20").count()) == (8, 10)
assert table.where("k < 20", version=0).count() == 20
assert dict(table.where("k >= 0").facets("s")) == {"even": 20, "odd": 10}
tailbit.sql(f"CREATE INDEX both ON listed.`{root}` USING record_key (k, s)")
assert len(tailbit.open(str(root)).locate([(5, "even"), (5, "odd")], on=["k", "s"]).to_pylist()) == 2
assert not tailbit.open(str(root)).verify().problems
for name, status in {"listed": 0, "delta": 1, "listen": 2}.items():
    asked = CliRunner().invoke(cli, ["count", str(root), "k = 5", "--table-format", name])
    assert asked.exit_code == status, (name, asked.output)
print("answered")
"""


def test_a_format_that_comes_is_one_folder_and_a_line_beside_the_others(tmp_path: Path) -> None:
    package = product_in(tmp_path / "tree")
    tables = package / "tables"
    (tables / "listed").mkdir()
    (tables / "listed" / "__init__.py").touch()
    (tables / "listed" / "format.py").write_text(FORMAT)
    formats = (tables / "formats.py").read_text().replace("(DELTA, HUDI,", "(DELTA, LISTED, HUDI,")
    line = "from tailbit.tables.listed.format import FORMAT as LISTED\n"
    (tables / "formats.py").write_text(
        formats.replace("from tailbit.tables.table", line + "from tailbit.tables.table")
    )
    assert printed_by(PROGRAM, tmp_path / "t", package) == "answered\n"
