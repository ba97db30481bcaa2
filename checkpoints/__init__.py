"""Offset, ledger and decision table: what has been indexed and where the stream goes on, without Spark."""

if __name__ != "tailbit.checkpoints":
    raise ImportError(
        "import tailbit.checkpoints, not checkpoints: the folder is the package tailbit.checkpoints"
    )
