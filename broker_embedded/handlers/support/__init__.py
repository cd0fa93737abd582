"""What handlers share: the registry of APIs, throttling, transaction checks."""
