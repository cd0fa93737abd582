"""Reports of running queries: lag, rows and bytes."""
