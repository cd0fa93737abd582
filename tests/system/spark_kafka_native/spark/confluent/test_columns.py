import struct
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_kafka_native._records.confluent_header import build_header
from spark_kafka_native.confluent import payload, schema_guid, schema_id, with_header

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")


@pytest.mark.spark
@pytest.mark.feature("more.wireFormat")
def test_payload_and_with_header_columns(spark: SparkSession) -> None:
    values = [
        struct.pack(">bI", 0, 258) + b"data",
        struct.pack(">bI", 0, 2**32 - 1),
        b"\x01" + GUID.bytes + b"more",
        b"\x00\x00\x00\x01",
        b"{json}",
        b"",
        None,
    ]
    frame = spark.createDataFrame([(at, value) for at, value in enumerate(values)], "at int, value binary")
    found = frame.select(
        "at",
        schema_id("value"),
        schema_guid(F.col("value")),
        payload("value"),
        with_header("value", 258),
        with_header("value", GUID),
    )
    rows = found.orderBy("at").collect()
    assert [row[1] for row in rows] == [258, 2**32 - 1, None, None, None, None, None]
    assert [row[2] for row in rows] == [None, None, str(GUID), None, None, None, None]
    assert [row[3] for row in rows] == [b"data", b"", b"more", None, None, None, None]
    assert [row[4] for row in rows] == [None if value is None else build_header(258) + value for value in values]
    assert [row[5] for row in rows] == [None if value is None else build_header(GUID) + value for value in values]


@pytest.mark.parametrize("wrong", [-1, 2**31, "42", True, None])
def test_values_that_are_not_a_schema_id(wrong: Any) -> None:
    with pytest.raises(ValueError, match=f"schema {wrong!r} is not a schema id from 0 to 2147483647"):
        with_header("value", wrong)
