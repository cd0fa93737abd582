"""Regular expressions of clients, with RE2's syntax, on a machine whose time is linear."""
