"""What a lakehouse table says: versions, file slices, changes between versions. No Spark, no index."""

if __name__ != "tailbit.tables":
    raise ImportError("import tailbit.tables, not tables: the folder is the package tailbit.tables")

from tailbit.tables.table import Table, open_table

__all__ = ["Table", "open_table"]
