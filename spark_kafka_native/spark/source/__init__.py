"""What Spark calls to read: readers, columns, and the tasks."""
