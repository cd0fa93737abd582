"""Partitions as the broker serves them: appends, reads, fetch sessions, and requests that wait for either."""
