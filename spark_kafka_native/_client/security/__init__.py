"""TLS and SASL of the client: properties, key stores, tokens."""
