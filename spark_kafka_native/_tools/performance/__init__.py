"""Tools that measure how fast a cluster takes and returns records, with the columns of Apache Kafka's."""
