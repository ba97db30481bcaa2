from __future__ import annotations

import pyarrow as pa

from support.index_records import ledger
from tailbit.index.kinds.ledger import ledger_from_arrow, ledger_to_arrow


def test_a_ledger_record_comes_back_from_arrow_as_it_was() -> None:
    for wanted in (ledger(3), ledger(3, "building"), ledger(3, fingerprint=None)):
        assert ledger_from_arrow(ledger_to_arrow(wanted)) == wanted


def test_of_several_ledger_records_the_newest_counts() -> None:
    rows = pa.concat_tables([ledger_to_arrow(ledger(v, seq=v)) for v in (3, 9, 5)])
    found = ledger_from_arrow(rows)
    assert found is not None
    assert found.version == 9
