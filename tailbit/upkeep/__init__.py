"""An index is looked after: verified, repaired, merged, altered, vacuumed, and told the state of."""
