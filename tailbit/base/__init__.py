"""What every other room stands on: errors, wording, arrays, points of fault, and imports at first use."""
