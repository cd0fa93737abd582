"""Options of source and sink: the tables, and their parsing."""
