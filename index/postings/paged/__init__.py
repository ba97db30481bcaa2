"""Lookups of many keys decode those small pages of a segment that may hold one, or whole row groups once."""
