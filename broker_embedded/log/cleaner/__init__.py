"""Compaction of logs whose ``cleanup.policy`` contains ``compact``.

`threads` runs the cleaner, `log_cleaner` picks the next log, `cleaning` goes through one log, `cleaner` decides what is
kept of a batch, and `log.shrinking` replaces the segments.
"""
