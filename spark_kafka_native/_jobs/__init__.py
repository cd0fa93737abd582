"""The jobs that ``jobs/*.py`` submits to Spark, and that pip users run with ``python -m``."""
