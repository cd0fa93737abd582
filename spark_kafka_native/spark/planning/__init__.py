"""What the driver decides: which partitions, how far, in how many tasks, and what was lost."""
