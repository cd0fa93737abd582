"""The brokers of ``broker_embedded.testing``: fault injection, clocks, recording, and their control port."""
