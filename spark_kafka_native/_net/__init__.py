"""Connections to brokers: the protocol's side of one without a socket, and a blocking socket around it."""
