"""The files of a data directory that hold metadata, one module each; `metadata_file` is what they share."""
