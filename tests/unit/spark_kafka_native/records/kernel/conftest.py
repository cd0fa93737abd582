"""These tests are about the compiled kernel alone: where it has not been built, there are none."""

from spark_kafka_native._records.arrow import kernel

collect_ignore_glob = ["test_*.py"] if kernel.choose("auto") is None else []
