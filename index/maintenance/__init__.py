"""An index is created, altered, merged, swept and vacuumed."""
