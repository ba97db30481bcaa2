"""The formats of tables. A new one is a folder beside the others, and a line here."""

from __future__ import annotations

from collections.abc import Sequence

from tailbit.tables.delta.format import FORMAT as DELTA
from tailbit.tables.hudi.format import FORMAT as HUDI
from tailbit.tables.iceberg.format import FORMAT as ICEBERG
from tailbit.tables.table import Format

FORMATS: Sequence[Format] = (DELTA, HUDI, ICEBERG)

NAMES = tuple(table_format.name for table_format in FORMATS)
"""Their names in options, and before a path in SQL."""
