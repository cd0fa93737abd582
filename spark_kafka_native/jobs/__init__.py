"""Whole jobs: what ``jobs/*.py`` submits to Spark and what pip users run with ``python -m``."""
