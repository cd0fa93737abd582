"""Where look-up tables (``BucketTable``) for the partitioner ``lookup`` are kept: a compacted topic, or a file."""
