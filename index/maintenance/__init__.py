"""An index is made, altered, verified, merged and vacuumed."""
