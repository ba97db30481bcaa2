"""The text of a predicate becomes a tree by Spark's grammar: tokens first, then operators in order."""
