"""The only composer of Spark: source, foreachBatch, job."""

if __name__ != "tailbit.streaming":
    raise ImportError("import tailbit.streaming, not streaming: the folder is the package tailbit.streaming")
