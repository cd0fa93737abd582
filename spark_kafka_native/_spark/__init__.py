"""The PySpark side: the ``pykafka`` data source, its options, its planner, its readers and writers."""
