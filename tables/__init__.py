"""A lakehouse table reports its versions, the file slices of each, and the changes between versions."""

if __name__ != "tailbit.tables":
    raise ImportError("import tailbit.tables, not tables: the folder is the package tailbit.tables")

from tailbit.tables.open import check_alone, located, open_table
from tailbit.tables.table import Table

__all__ = ["Table", "check_alone", "located", "open_table"]
