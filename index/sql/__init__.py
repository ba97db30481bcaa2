"""The text of a predicate becomes a bound tree; its constants are read, cast and compared as Spark does."""
