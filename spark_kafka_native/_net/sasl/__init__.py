"""SASL mechanisms: the client's messages, one by one, without a socket."""
