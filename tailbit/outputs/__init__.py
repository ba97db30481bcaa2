"""Answers for other tools: as an Arrow stream, a Delta table or a Spark DataFrame, and for display."""
