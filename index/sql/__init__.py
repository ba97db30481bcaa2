"""The text of a predicate becomes a bound tree; its constants are parsed, cast and compared as Spark does."""
