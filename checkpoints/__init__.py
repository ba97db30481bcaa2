"""What has been indexed, and the proof of it. No Spark."""

if __name__ != "tailbit.checkpoints":
    raise ImportError(
        "import tailbit.checkpoints, not checkpoints: the folder is the package tailbit.checkpoints"
    )
