"""An index is made, altered, merged, swept and vacuumed."""
