"""Time zones: local times and instants, one by one and as arrays, by the rules that Java has."""
