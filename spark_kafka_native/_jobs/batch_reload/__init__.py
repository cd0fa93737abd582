"""The batch load: topics into files, exactly once, or into any other Spark format, at least once."""
