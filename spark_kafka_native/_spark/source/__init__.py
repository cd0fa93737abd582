"""The source: readers, columns and tasks."""
