"""Where loads are stored: a directory on a file system, or a prefix of an object store."""
