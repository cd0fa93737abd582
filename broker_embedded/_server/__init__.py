"""The network server: listeners, connections, dispatch of requests, and periodic tasks.

One event loop owns the broker's state, so that no locks are necessary.
"""
