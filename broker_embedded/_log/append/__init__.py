"""Appends: validation of incoming batches, conversion of old formats, and the state of idempotent producers."""
