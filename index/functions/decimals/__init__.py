"""Decimals: arithmetic, casts and rounding, in vectors where 64 bits hold them."""
