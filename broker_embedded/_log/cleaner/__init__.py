"""Compaction of logs whose ``cleanup.policy`` contains ``compact``.

`threads` runs the cleaner, `log_cleaner` picks the next log, `cleaner` compacts one log, `batch_cleaner` decides which
records of a batch are kept, and `replacement` puts the compacted segments in place of the originals.
"""
