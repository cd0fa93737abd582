"""Administration: topics, settings, groups, quotas, SCRAM users."""
