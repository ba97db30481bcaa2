"""How long from a commit of an Iceberg table to its being covered, beside a commit of a Delta table?

Usage: python workloads/freshness_iceberg.py [COMMITS]. As `freshness_hudi`, whose application and pauses it
uses. The Iceberg tables are written by hand, of a Hadoop catalog: a file a commit, and a file with a deletion
vector for the file before.
"""

from __future__ import annotations

import pathlib
import random
import sys
from collections.abc import Callable
from functools import partial

import pyarrow as pa
from freshness_hudi import beside_delta
from timing import tell

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests"))
from support.iceberg_builder import IcebergBuilder, Json, Written, iceberg_type


def main(commits: int = 60) -> None:
    makers = {"new files": _written, "deletion vectors": partial(_written, version=3)}
    for line in beside_delta(makers, commits):
        tell(line)


def _written(path: pathlib.Path, version: int = 2) -> Callable[[pa.Table], None]:
    """Return a writer of a file a commit; in format version 3, it deletes rows of the file before."""
    builder = IcebergBuilder(str(path), random.Random(3), version)
    builder.gz, builder.lags = False, False
    files, lists = list[Written](), list[Json]()

    def write(rows: pa.Table) -> None:
        fields: list[Json] = [
            {"id": number, "name": column.name, "required": False, "type": iceberg_type(column.type)}
            for number, column in enumerate(rows.schema, 1)
        ]
        if not builder.schemas:
            builder.schemas.append({"type": "struct", "schema-id": 0, "fields": fields})
        id_ = builder.new_snapshot()
        file = builder.data_file(rows, fields, {})
        lists.append(builder.manifest([(1, file)], 0, False, id_))
        if files and version > 2:
            before = files[-1]
            deletes = builder.vectors({before.path: [3, 5]}, {before.path: before})
            lists.append(builder.manifest([(1, delete) for delete in deletes], 0, True, id_))
        files.append(file)
        builder.add_snapshot(id_, lists, "append")
        builder.commit()

    return write


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
