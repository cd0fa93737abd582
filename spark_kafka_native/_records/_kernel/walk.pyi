"""The records of a batch, field by field; nothing to call."""
