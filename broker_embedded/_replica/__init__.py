"""Partitions as the broker serves them: appends, reads, fetch sessions, and delayed requests."""
