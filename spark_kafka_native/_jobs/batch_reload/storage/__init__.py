"""Storage of loads: a directory in a file system, or a prefix of an object store."""
