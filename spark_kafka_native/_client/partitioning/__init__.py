"""The partition of a record: hashes of keys, and partitioners by name."""
