"""ZooKeeper's own server and shell, from the jars of pyspark: command lines, and the server's configuration."""
