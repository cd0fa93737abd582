"""The broker on the network: listeners, connections, requests to handlers and back, and what runs by the clock.

One event loop owns all of the broker's state; nothing here takes a lock.
"""
