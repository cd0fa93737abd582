"""The control port of a broker for tests: its commands, their fields, its address."""
