"""The text of a predicate becomes a bound tree; constants are read, cast and compared as Spark does it."""
