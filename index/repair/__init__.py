"""Damaged parts of an index, and nothing else, are removed in one commit; then they are built again."""
