import datetime
import decimal
import pickle
import re
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

from spark_kafka_native._records.confluent_header import build_header
from spark_kafka_native._spark.confluent.decoding import AvroDecoder, BadRows
from spark_kafka_native._spark.confluent.errors import BadRow, RegistryError
from spark_kafka_native._spark.confluent.registry import Registry
from spark_kafka_native._spark.confluent.schemas import avro_schema
from tests.support.spark.avro_values import NEW_FIELD, ORDER, ORDER_V2, avro, framed
from tests.support.spark.schema_registry import StubRegistry

NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
ROW = {"id": 1, "customer": "ann", "at": NOON}


def column(*values: bytes | None) -> Any:
    return pa.array(values, pa.binary())


def decoder(registry: StubRegistry | None, schema: object = ORDER, **more: Any) -> AvroDecoder:
    asked = None if registry is None else Registry.at({"url": registry.url, "max.retries": 0})
    made = AvroDecoder(schema=avro_schema(schema), registry=asked, **more)  # type: ignore[arg-type]  # of any kind
    again: AvroDecoder = pickle.loads(pickle.dumps(made))
    return again


@pytest.mark.feature("more.avro")
def test_values_of_several_schemas_become_one_type(registry: StubRegistry) -> None:
    first, second = registry.add("orders-value", ORDER), registry.add("orders-value", ORDER_V2)
    values = column(
        framed(first, ORDER, ROW), None, framed(second, ORDER_V2, ROW | {"note": "n"}), framed(first, ORDER, ROW)
    )
    assert decoder(registry).decode(values).values.to_pylist() == [ROW, None, ROW, ROW]
    newer = decoder(registry, ORDER_V2).decode(values.slice(1)).values
    assert newer.to_pylist() == [None, ROW | {"note": "n"}, ROW | {"note": None}]
    assert newer.type.field("at").type == pa.timestamp("us", "UTC")
    assert registry.asked("/schemas/ids/") == 2


@pytest.mark.feature("more.avro")
def test_a_guid_names_the_schema_before_the_value_or_in_a_record_header(registry: StubRegistry) -> None:
    guid = registry.guid(registry.add("orders-value", ORDER))
    values = column(build_header(guid) + avro(ORDER, ROW), avro(ORDER, ROW))
    decoded = decoder(registry).decode(values, column(None, build_header(guid)))
    assert decoded.values.to_pylist() == [ROW, ROW]


def test_without_a_registry_the_given_schema_is_the_writers() -> None:
    assert decoder(None).decode(column(framed(77, ORDER, ROW))).values.to_pylist() == [ROW]
    assert decoder(None, framed=False).decode(column(avro(ORDER, ROW), None)).values.to_pylist() == [ROW, None]


def test_every_kind_of_value() -> None:
    fields: dict[str, tuple[object, object]] = {
        "d": ({"type": "int", "logicalType": "date"}, datetime.date(1969, 7, 20)),
        "us": ({"type": "long", "logicalType": "timestamp-micros"}, NOON.replace(microsecond=7)),
        "local": ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime.datetime(1960, 1, 1, 5)),
        "dec": ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, decimal.Decimal("-12.34")),
        "e": ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B"),
        "f": ({"type": "fixed", "name": "F", "size": 2}, b"\x00\xff"),
        "l": ({"type": "array", "items": ["null", "int"]}, [1, None]),
        "u": (["null", "int", "long"], 2**40),
        "s": ({"type": "record", "name": "S", "fields": [{"name": "x", "type": "double"}]}, {"x": 0.5}),
        "t": ({"type": "int", "logicalType": "time-millis"}, datetime.time(0, 0, 1)),
    }
    schema = {"type": "record", "name": "All", "fields": [{"name": n, "type": kind} for n, (kind, _) in fields.items()]}
    row = {name: value for name, (_, value) in fields.items()}
    found = decoder(None, schema, framed=False).decode(column(avro(schema, row))).values
    assert found.to_pylist() == [row | {"t": 1000}]


def test_maps_with_times_in_them() -> None:
    times = {"type": "map", "values": {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}}
    schema = {"type": "record", "name": "M", "fields": [{"name": "m", "type": times}]}
    found = decoder(None, schema, framed=False).decode(column(avro(schema, {"m": {"a": [NOON]}}))).values
    assert found.to_pylist() == [{"m": [("a", [NOON])]}]


def bad_rows(schema_id: int) -> Any:
    good = framed(schema_id, ORDER, ROW)
    return column(good, b"no header", good[:-1], good + b"!", build_header(4711) + b"x", None, good)


@pytest.mark.feature("more.avro")
def test_bad_rows_are_null_or_kept_with_their_errors(registry: StubRegistry) -> None:
    values = bad_rows(registry.add("orders-value", ORDER))
    for policy in (BadRows.NULL, BadRows.KEEP):
        decoded = decoder(registry, bad_rows=policy).decode(values)
        assert decoded.values.to_pylist() == [ROW, None, None, None, None, None, ROW]
        assert sorted(decoded.errors) == [1, 2, 3, 4]
        assert "does not begin with magic byte" in decoded.errors[1]
        assert re.fullmatch("its [0-9]+ bytes are too short for the schema", decoded.errors[2])
        assert decoded.errors[3] == "1 bytes are left after the value"
        assert "schema 4711: the registry responded: Schema not found" in decoded.errors[4]


@pytest.mark.feature("more.avro")
def test_bad_rows_fail_the_task(registry: StubRegistry) -> None:
    values = bad_rows(registry.add("orders-value", ORDER))
    with pytest.raises(
        BadRow, match=r"4 values cannot be decoded, the first is number 1 of its batch: .* on_bad='keep'"
    ):
        decoder(registry).decode(values)


@pytest.mark.feature("more.avro")
def test_values_out_of_range_are_bad_rows() -> None:
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    plain = {"type": "long"}
    values = column(avro(plain, 0), avro(plain, 2**62), avro(plain, 5))
    decoded = decoder(None, schema, framed=False, bad_rows=BadRows.KEEP).decode(values)
    assert decoded.values.cast(pa.int64()).to_pylist() == [0, None, 5000]
    assert list(decoded.errors) == [1]
    with pytest.raises(BadRow, match="1 value cannot be decoded, the first is number 1"):
        decoder(None, schema, framed=False).decode(values)


def test_schemas_that_do_not_resolve_make_bad_rows(registry: StubRegistry) -> None:
    other = {**ORDER, "fields": [{"name": "id", "type": "string"}]}
    values = column(framed(registry.add("o", other), other, {"id": "x"}))
    decoded = decoder(registry, bad_rows=BadRows.KEEP).decode(values)
    assert decoded.values.to_pylist() == [None]
    assert decoded.errors == {0: "SchemaResolutionError: Schema mismatch: string is not long"}


@pytest.mark.feature("more.avro")
def test_registry_error_fails_the_query_with_any_on_bad(registry: StubRegistry) -> None:
    registry.failing_with = 500
    with pytest.raises(RegistryError):
        decoder(registry, bad_rows=BadRows.NULL).decode(column(framed(1, ORDER, ROW)))


def test_writers_may_have_schemas_without_a_spark_type(registry: StubRegistry) -> None:
    union = {**ORDER, "fields": [*ORDER["fields"], {"name": "any", "type": ["string", "int"]}]}
    values = column(framed(registry.add("o", union), union, ROW | {"any": 5}))
    assert decoder(registry).decode(values).values.to_pylist() == [ROW]


@pytest.mark.parametrize("framed_values", [True, False])
def test_no_rows_and_only_nulls(framed_values: bool) -> None:
    for values in (column(), column(None, None)):
        found = decoder(None, framed=framed_values).decode(values).values
        assert (len(found), found.null_count) == (len(values), len(values))
        assert NEW_FIELD["name"] not in [field.name for field in found.type]
