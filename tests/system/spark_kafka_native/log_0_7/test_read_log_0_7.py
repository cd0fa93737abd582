from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from spark_kafka_native import LogFilesError, read_log_0_7
from spark_kafka_native._records.compression import CompressionType
from spark_kafka_native._records.kafka_0_7 import encode_message, encode_messages

pytestmark = pytest.mark.spark


def test_a_log_is_a_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    for partition in (0, 1):
        (tmp_path / f"t-{partition}").mkdir()
    compressed = encode_messages([b"b", b"\xff"], codec=CompressionType.GZIP)
    (tmp_path / "t-0" / "5.kafka").write_bytes(encode_message(b"a") + compressed)
    (tmp_path / "t-1" / "0.kafka").touch()
    frame = read_log_0_7(spark, str(tmp_path))
    end = 16 + len(compressed)
    assert frame.orderBy("partition", "offset", "index").collect() == [
        Row(topic="t", partition=0, offset=5, nextOffset=16, index=0, value=b"a"),
        Row(topic="t", partition=0, offset=16, nextOffset=end, index=0, value=b"b"),
        Row(topic="t", partition=0, offset=16, nextOffset=end, index=1, value=b"\xff"),
    ]
    assert frame.rdd.getNumPartitions() == 2


def test_a_damaged_message_fails_the_query(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "0.kafka").write_bytes(encode_message(b"a") + b"\x00\x00\x00\x0a\x09")
    with pytest.raises(PySparkException, match=r"unknown magic 9 of a message of Kafka 0.7 \(file .*t-0/0.kafka"):
        read_log_0_7(spark, str(tmp_path)).count()


def test_no_files_are_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(LogFilesError, match=r"there are no \.kafka files"):
        read_log_0_7(spark, str(tmp_path))
