"""The coordinators of groups and transactions, which execute the decisions of those packages with logs and timers."""
