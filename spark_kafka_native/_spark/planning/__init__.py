"""Planning on the driver: partitions, offset ranges, tasks and data loss."""
