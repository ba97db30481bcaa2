"""The files of a Delta log are listed, read and checked; what it demands of readers is met or refused."""
