"""Clients whose callers handle single records, without Spark and Arrow."""
