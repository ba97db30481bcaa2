"""What the process beside Spark's driver answers: checked requests, and replies from the index alone."""
