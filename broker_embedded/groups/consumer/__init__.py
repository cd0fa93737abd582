"""Groups of the consumer protocol (KIP-848): members send their subscriptions, the broker assigns the partitions."""
