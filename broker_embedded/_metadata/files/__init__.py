"""The files of a data directory that hold metadata, one module each; `metadata_file` has the common parts."""
