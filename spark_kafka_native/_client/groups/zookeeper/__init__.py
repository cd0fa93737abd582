"""Members of groups whose partitions are shared through ZooKeeper."""
