"""Arrow's functions without `pyarrow.compute` are those of `pyarrow.compute`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute
import pytest

from tailbit.tables import compute

ROOT = Path(__file__).parents[3]
TEXTS = pa.array(["b", None, "a", "b"])
FLAGS = pa.array([True, None, False, True])
CALLS = [
    ("equal", (TEXTS, "b"), {}),
    ("and_", (FLAGS, FLAGS), {}),
    ("or_", (FLAGS, FLAGS), {}),
    ("is_in", (TEXTS,), {"value_set": pa.array(["a"])}),
    ("index_in", (TEXTS, pa.array(["a"])), {}),
    ("starts_with", (TEXTS, "b"), {}),
    ("count_distinct", (TEXTS,), {"mode": "all"}),
    ("dictionary_encode", (TEXTS,), {"null_encoding": "encode"}),
    ("binary_join_element_wise", (TEXTS, TEXTS, "-"), {"null_handling": "skip"}),
    ("min_max", (TEXTS,), {}),
    ("sort_indices", (TEXTS,), {}),
    ("filter", (TEXTS, pa.array([True, False, True, True])), {}),
    ("take", (TEXTS, pa.array([3, None])), {}),
    ("cast", (pa.chunked_array([["1", None]]), pa.int64()), {}),
    ("fill_null", (TEXTS, "c"), {}),
    ("index", (TEXTS, "a"), {}),
]


@pytest.mark.parametrize(("name", "arguments", "settings"), CALLS, ids=[name for name, _, _ in CALLS])
def test_a_function_returns_what_that_of_pyarrow_compute_returns(
    name: str, arguments: tuple[object, ...], settings: dict[str, object]
) -> None:
    result = getattr(compute, name)(*arguments, **settings)
    expected = getattr(pyarrow.compute, name)(*arguments, **settings)
    assert result == expected
    assert type(result) is type(expected)


def test_a_cast_that_loses_something_is_refused_unless_it_is_unsafe() -> None:
    with pytest.raises(pa.ArrowInvalid):
        compute.cast(pa.array([300]), pa.int8())
    assert compute.cast(pa.array([300]), pa.int8(), safe=False).to_pylist() == [44]


def test_every_function_that_the_product_calls_is_known() -> None:
    names = set()
    for room in ("tailbit", "tables", "index", "checkpoints", "streaming"):
        for file in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                    if node.value.id == "pc":
                        names.add(node.attr)
    assert len(names) > 50
    assert [name for name in sorted(names) if not callable(getattr(compute, name))] == []


def test_an_unknown_function_is_refused_as_a_missing_attribute() -> None:
    with pytest.raises(AttributeError, match="no_such_function"):
        getattr(compute, "no_such_function")  # noqa: B009


def test_functions_of_arrow_import_neither_pyarrow_compute_nor_pandas() -> None:
    code = (
        "import sys, pyarrow as pa; from tailbit.tables import compute as pc\n"
        "numbers = pa.nulls(3, pa.int64())\n"
        "pc.cast(pc.take(pc.coalesce(numbers, numbers), pa.nulls(1, pa.int8())), pa.int8())\n"
        "print([m for m in ('pyarrow.compute', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
