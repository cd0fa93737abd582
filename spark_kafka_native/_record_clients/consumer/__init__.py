"""Consumers of single records."""
