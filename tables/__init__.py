"""A lakehouse table says which versions it has, which file slices each holds, and what changed between."""

if __name__ != "tailbit.tables":
    raise ImportError("import tailbit.tables, not tables: the folder is the package tailbit.tables")

from tailbit.tables.open import open_table
from tailbit.tables.table import Table

__all__ = ["Table", "open_table"]
