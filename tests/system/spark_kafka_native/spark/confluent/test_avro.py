import datetime
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

from spark_kafka_native._records.confluent_header import build_header
from spark_kafka_native._spark.confluent.avro import decode_avro, encode_avro
from spark_kafka_native._spark.confluent.errors import NoSuchSchema, SchemaError
from spark_kafka_native.confluent import payload, schema_id
from tests.support.spark.avro_values import ORDER, ORDER_V2, avro, framed
from tests.support.spark.schema_registry import StubRegistry

NOON = datetime.datetime(2026, 1, 2, 12)
ROW = {"id": 1, "customer": "ann", "at": NOON.replace(tzinfo=datetime.UTC)}


@pytest.mark.spark
@pytest.mark.feature("more.avro", "more.wireFormat")
def test_encoded_and_decoded_in_spark(spark: SparkSession, registry: StubRegistry) -> None:
    orders = spark.range(5).selectExpr(
        "struct(id, concat('c', id) AS customer, timestamp_millis(id * 1000) AS at) AS order"
    )
    encoded = orders.select(
        encode_avro("order", registry=registry.url, subject="orders-value", schema=ORDER).alias("value")
    )
    assert registry.asked("/subjects/orders-value/versions") == 1
    number = registry.add("orders-value", ORDER)
    newer = registry.add("orders-value", ORDER_V2)
    registry.add("old", ORDER)
    rows = encoded.select(
        schema_id("value").alias("number"),
        decode_avro("value", registry={"url": registry.url}, subject="orders-value").alias("order"),
        decode_avro(payload("value"), registry=registry.url, subject="old", framed=False).alias("same"),
    ).select("number", F.expr("unix_millis(order.at)").alias("ms"), "order.customer", "order.note", "same.id")
    assert rows.orderBy("id").collect() == [(number, row * 1000, f"c{row}", None, row) for row in range(5)]
    # What the newest version was is settled when the column is made.
    latest = orders.select(encode_avro("order", registry=registry.url, subject="orders-value").alias("value"))
    assert latest.select(schema_id("value")).distinct().collect() == [(newer,)]


@pytest.mark.spark
@pytest.mark.feature("more.avro")
def test_bad_rows_and_guids_in_spark(
    spark: SparkSession, registry: StubRegistry, capsys: pytest.CaptureFixture[str]
) -> None:
    registry.user_info = "me:s3cret"
    number = registry.add("orders-value", ORDER)
    guid = registry.guid(number)
    values: list[Any] = [
        (0, framed(number, ORDER, ROW), None),
        (1, b"poison", None),
        (2, avro(ORDER, ROW), [("__value_schema_id", build_header(guid))]),
        (3, None, None),
    ]
    kind = "at int, value binary, headers array<struct<key:string,value:binary>>"
    frame = spark.createDataFrame(values, kind)

    def decoded(on_bad: str) -> Any:
        settings = {"url": registry.url, "basic.auth.user.info": "me:s3cret"}
        return decode_avro("value", registry=settings, schema=ORDER, headers="headers", on_bad=on_bad)

    frame.select(decoded("fail")).explain(extended=True)
    assert "s3cret" not in capsys.readouterr().out
    kept = frame.select("at", decoded("keep").alias("order")).select("order.value.customer", "order.error", "at")
    rows = kept.orderBy("at").collect()
    assert [row.customer for row in rows] == ["ann", None, "ann", None]
    assert [row.error is None for row in rows] == [True, False, True, True]
    nulls = frame.select("at", decoded("null").alias("order")).orderBy("at").collect()
    assert [row.order is None for row in nulls] == [False, True, False, True]
    with pytest.raises(PythonException, match="1 value cannot be decoded") as caught:
        frame.select(decoded("fail")).collect()
    assert "s3cret" not in str(caught.value)


# --- arguments, without Spark


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({}, "give schema, or registry and subject"),
        ({"registry": "http://127.0.0.1:1"}, "give schema, or registry and subject"),
        ({"schema": ORDER, "on_bad": "skip"}, "on_bad='skip' is not one of fail, null, keep"),
        ({"schema": ORDER, "headers": "headers", "framed": False}, "headers cannot name their schema"),
        ({"schema": ORDER, "registry": "http://a", "subject": "s"}, "give schema or subject: "),
        ({"schema": ORDER, "registry": {}}, "a schema registry needs its 'url'"),
    ],
)
def test_decode_arguments_that_do_not_fit_together(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        decode_avro("value", **arguments)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"schema": ORDER}, "a header needs schema_id, or registry and subject; framed=False writes none"),
        ({"schema": ORDER, "framed": False, "schema_id": 1}, "schema_id has no effect"),
        ({"schema_id": 1}, "give schema, or registry and subject"),
    ],
)
def test_encode_arguments_that_do_not_fit_together(arguments: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        encode_avro("value", **arguments)


def test_schema_errors_are_raised_on_the_driver(registry: StubRegistry) -> None:
    with pytest.raises(SchemaError):
        decode_avro("value", schema="{")
    with pytest.raises(NoSuchSchema, match="subject absent"):
        decode_avro("value", registry=registry.url, subject="absent")
    with pytest.raises(NoSuchSchema, match="schema 9"):
        encode_avro("value", registry=registry.url, schema_id=9)
