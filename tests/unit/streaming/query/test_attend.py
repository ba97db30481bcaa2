"""What a query met at its end is told by its true cause."""

from __future__ import annotations

from pathlib import Path

from support.index_records import new_index
from tailbit.errors import CorruptIndexError, NoIndexError, StreamError
from tailbit.index.store.table import MetadataTable
from tailbit.streaming.query.attend import as_vanished


def test_a_file_that_is_missing_with_its_whole_index_is_no_damage(tmp_path: Path) -> None:
    path = tmp_path / "index"
    new_index(str(path))
    index = MetadataTable.open(str(path))
    missing = CorruptIndexError(file="kind=ledger/x.parquet", reason="it is missing")
    other = StreamError(reason="no", checkpoint="c")
    assert as_vanished(index, missing) is missing
    path.rename(tmp_path / "away")
    found = as_vanished(index, missing)
    assert isinstance(found, NoIndexError)
    assert found.fields["path"] == str(path)
    assert as_vanished(index, other) is other
