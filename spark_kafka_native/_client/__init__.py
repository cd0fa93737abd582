"""The Kafka client: clusters and their leaders, offsets, reading, writing, topics and groups."""
