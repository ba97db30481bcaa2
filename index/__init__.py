"""The index holds bitmaps over record positions; it is written, stored and queried here, without Spark."""

if __name__ != "tailbit.index":
    raise ImportError("import tailbit.index, not index: the folder is the package tailbit.index")
