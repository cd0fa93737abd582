"""ZooKeeper as Kafka uses it: addresses, sessions, and znodes that clients and brokers share. kazoo is the client."""
