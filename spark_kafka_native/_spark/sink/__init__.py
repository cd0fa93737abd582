"""The sink: writers and their rows."""
