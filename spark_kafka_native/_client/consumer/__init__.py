"""Reading partitions through Fetch and ListOffsets, as Arrow record batches."""
