"""Compaction of logs whose ``cleanup.policy`` contains ``compact``.

`threads` runs the cleaner, `log_cleaner` picks the next log, `cleaning` compacts one log, `cleaner` decides which
records of a batch are kept, and `replacement` puts the compacted segments in place of the originals.
"""
