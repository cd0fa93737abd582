"""What handlers share: the registry of APIs, quotas, transaction checks."""
