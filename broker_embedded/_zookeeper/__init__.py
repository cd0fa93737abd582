"""The broker's znodes in ZooKeeper: session, registration, topics."""
