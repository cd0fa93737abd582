"""Transactions: requests to their coordinators, their state, and how they end (KIP-98, KIP-664, KIP-890)."""
