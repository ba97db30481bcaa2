"""Time zones by Java's rules: conversions between local times and instants, single and as arrays."""
