"""An index is created, altered, merged, swept, vacuumed and repaired."""
