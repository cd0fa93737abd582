"""Groups of the consumer protocol (KIP-848): members send subscriptions, the coordinator assigns partitions."""
