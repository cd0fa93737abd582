"""The tools that read and write records as text."""
