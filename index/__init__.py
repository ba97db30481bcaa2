"""Bitmaps over record positions: build, store, ask. No Spark."""

if __name__ != "tailbit.index":
    raise ImportError("import tailbit.index, not index: the folder is the package tailbit.index")
