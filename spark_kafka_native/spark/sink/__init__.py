"""What Spark calls to write: rows and writers."""
