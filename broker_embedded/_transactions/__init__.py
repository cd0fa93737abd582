"""Transactions as a state machine without IO (KIP-98, KIP-360, KIP-890)."""
