"""Regular expressions of Java, translated to Python's: option ``subscribePattern``."""
