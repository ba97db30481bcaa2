from __future__ import annotations

import pyarrow as pa
import pytest

from support.index_records import ledger
from tailbit.errors import CorruptIndexError
from tailbit.index.kinds.ledger import ledger_from_arrow, ledger_to_arrow


def test_of_several_ledger_records_the_newest_counts() -> None:
    rows = pa.concat_tables([ledger_to_arrow(ledger(v, seq=v)) for v in (3, 9, 5)])
    found = ledger_from_arrow(rows)
    assert found is not None
    assert found.version == 9


def test_a_ledger_of_a_state_that_there_is_not_is_damage() -> None:
    rows = ledger_to_arrow(ledger(3))
    at = rows.column_names.index("state")
    rows = rows.set_column(at, "state", pa.array(["half"], pa.string()))
    with pytest.raises(CorruptIndexError, match="'half', neither building nor complete"):
        ledger_from_arrow(rows)
