"""A real ZooKeeper, from the jars that the package pyspark contains."""
