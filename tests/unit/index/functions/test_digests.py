"""hash over parts of arrays and over none."""

from __future__ import annotations

import pyarrow as pa

from support.function_cells import schema
from support.truth import matches
from tailbit.index.sql.bind import bind


def test_the_hash_of_a_text_is_that_of_its_own_bytes_in_a_part_of_an_array() -> None:
    texts = pa.table({"s": ["x", "Spark", None, "äÖß"]})
    node = bind("hash(s) = hash('Spark') OR hash(s) = 42", schema())
    assert matches(node, texts, {}).tolist() == [False, True, True, False]
    assert matches(node, texts.slice(1, 2), {}).tolist() == [True, True]
    assert matches(node, texts.slice(0, 0), {}).tolist() == []
