"""The table of what else than its arguments decides a function's value in Spark is complete."""

from __future__ import annotations

import pytest

from tailbit.index.expression.unvarying import CASES, DEPENDS_ON, LOCALE, RELEASE, ZONE
from tailbit.index.functions.table import FUNCTIONS, KERNELS
from tailbit.index.functions.tree import CONDITIONAL, LAMBDAS


def test_the_table_of_sessions_says_of_every_function_what_decides_its_value() -> None:
    assert set(DEPENDS_ON) == {*KERNELS, *CONDITIONAL, *LAMBDAS, "and", "or", "try_cast"}


def test_every_function_with_a_time_zone_depends_on_it() -> None:
    zoned = [function.kernel for function in FUNCTIONS.values() if function.zoned]
    assert [kernel for kernel in zoned if ZONE not in DEPENDS_ON[kernel]] == []


@pytest.mark.parametrize(
    ("function", "causes"), [("lower", {CASES, LOCALE}), ("initcap", {CASES, LOCALE}), ("like", {RELEASE})]
)
def test_letters_depend_on_locale_setting_and_release(function: str, causes: set[str]) -> None:
    assert causes <= set(DEPENDS_ON[function])
