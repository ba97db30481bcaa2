"""Arrays that are made of buffers are those that pyarrow makes."""

from __future__ import annotations

import subprocess
import sys
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tailbit.tables.arrow import arrow_array, arrow_scalar, filled, no_rows, numpy_of

EAST = timezone(timedelta(hours=3))
VALUES: list[tuple[list[Any], pa.DataType]] = [
    ([1, None, -128], pa.int8()),
    ([2**63 - 1, None], pa.int64()),
    ([1, 2.5, None], pa.float64()),
    ([0.1], pa.float32()),
    ([True, None, False] * 5, pa.bool_()),
    (["a", None, "", "é"], pa.string()),
    (["a", None], pa.large_string()),
    ([b"a", None, "\u00e9".encode()], pa.string()),
    (["a", None, "longer than twelve bytes"], pa.string_view()),
    ([b"\xff", None], pa.binary_view()),
    ([b"\xff", None, "text"], pa.binary()),
    ([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
    ([datetime(1900, 1, 1, 0, 0, 0, 1, timezone.utc).replace(tzinfo=None), None], pa.timestamp("us")),
    ([datetime(2020, 1, 1, tzinfo=EAST), None, 7], pa.timestamp("us", "UTC")),
    ([Decimal("1.50"), None, Decimal("-3"), Decimal("1E+2")], pa.decimal128(9, 2)),
    ([Decimal(10) ** 37], pa.decimal128(38, 0)),
    ([["a", None], None, []], pa.list_(pa.string())),
    ([[("a", "b")], None, []], pa.map_(pa.string(), pa.string())),
    ([{"a": 1, "b": None}, None, {}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ([None, None], pa.null()),
    ([], pa.string()),
]


def test_values_become_what_pyarrow_makes_of_them_without_an_import_of_pandas() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/unit/tables')\n"
        "from test_arrow import VALUES, arrow_array\n"
        "made = [arrow_array(*case) for case in VALUES]\n"
        "assert 'pandas' not in sys.modules\n"
        "import pyarrow as pa\n"
        "for (values, type_), array in zip(VALUES, made, strict=True):\n"
        "    array.validate(full=True)\n"
        "    assert array.equals(pa.array(values, type_)), (values, type_, array)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


WRONG: list[tuple[list[Any], pa.DataType]] = [
    ([300], pa.int8()),
    (["a"], pa.int64()),
    ([1], pa.string()),
    ([b"\xff"], pa.string()),
    ([b"\xff"], pa.string_view()),
    ([Decimal("1.005")], pa.decimal128(9, 2)),
    ([Decimal(10**9)], pa.decimal128(9, 2)),
]


def test_a_value_that_is_not_of_the_type_raises_what_pyarrow_raises() -> None:
    code = (
        "import sys; sys.path.insert(0, 'tests/unit/tables')\n"
        "from test_arrow import WRONG, arrow_array\n"
        "import pyarrow as pa\n"
        "for values, type_ in WRONG:\n"
        "    try:\n        made = arrow_array(values, type_)\n"
        "    except pa.ArrowException as refused:\n        made = type(refused)\n"
        "    try:\n        meant = pa.array(values, type_)\n"
        "    except pa.ArrowException as refused:\n        meant = type(refused)\n"
        "    assert made == meant, (values, type_, made, meant)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("dtype", [np.int8, np.uint16, np.int64, np.float32, np.float64, np.bool_, "M8[us]"])
def test_numpy_arrays_go_to_arrow_and_back(dtype: Any) -> None:
    values = np.arange(21).astype(dtype)
    mask = np.arange(21) % 4 == 1
    assert arrow_array(values).equals(pa.array(values))
    assert arrow_array(values[::2]).equals(pa.array(values[::2]))
    assert arrow_array(values, mask=mask).equals(pa.array(values, mask=mask))
    assert numpy_of(arrow_array(values).slice(3, 9)).tolist() == values[3:12].tolist()
    chunks = pa.chunked_array([arrow_array(values), arrow_array(values).slice(5)])
    assert numpy_of(chunks).tolist() == [*values.tolist(), *values[5:].tolist()]
    assert numpy_of(pa.chunked_array([], pa.int64()), np.int32).dtype == np.int32


def test_scalars_filled_values_and_empty_tables_are_pyarrows() -> None:
    assert [arrow_scalar(value) for value in (1, 0.5, "a", b"a", True)] == [
        pa.scalar(value) for value in (1, 0.5, "a", b"a", True)
    ]
    assert arrow_scalar(None, pa.int8()) == pa.scalar(None, pa.int8())
    assert filled(pa.array([1, None]), 3).to_pylist() == [1, 3]
    schema = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    assert no_rows(schema) == schema.empty_table()


def test_values_are_null_where_a_mask_says_so() -> None:
    mask = np.array([False, True])
    assert arrow_array(["a", "b"], pa.string(), mask=mask).to_pylist() == ["a", None]
    assert arrow_array(np.array([1, 2]), mask=mask).to_pylist() == [1, None]
