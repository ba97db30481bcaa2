from __future__ import annotations

from dataclasses import replace

import pytest

from support.index_records import settings
from tailbit.errors import IndexFormatError
from tailbit.index.kinds.settings import FORMAT, NEWEST_FORMAT, settings_from_arrow, settings_to_arrow


@pytest.mark.parametrize("number", [FORMAT - 1, NEWEST_FORMAT + 1])
def test_settings_of_another_format_are_refused_by_number(number: int) -> None:
    rows = settings_to_arrow(replace(settings(), format=number), 0)
    said = f"format {number}; this tailbit reads {NEWEST_FORMAT}"
    with pytest.raises(IndexFormatError, match=said):
        settings_from_arrow(rows, "x")
