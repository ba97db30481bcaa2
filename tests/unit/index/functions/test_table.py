"""The table of functions names modules and functions that there are."""

from __future__ import annotations

from tailbit.index.functions.table import FUNCTIONS, KERNELS, kernel


def test_every_function_is_evaluated_by_a_function_that_there_is() -> None:
    names = [kernel(name).__name__ for name in KERNELS]
    assert names == [path.rpartition(".")[2] for path in KERNELS.values()]


def test_every_function_of_fixed_arguments_has_a_kernel() -> None:
    assert [name for name, function in FUNCTIONS.items() if function.kernel not in KERNELS] == []
