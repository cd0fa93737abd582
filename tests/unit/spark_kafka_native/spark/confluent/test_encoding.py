import datetime
import decimal
import pickle
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

pytest.importorskip("fastavro")
pytest.importorskip("confluent_kafka.schema_registry", exc_type=ImportError)

from spark_kafka_native._spark.confluent.decoding import AvroDecoder
from spark_kafka_native._spark.confluent.encoding import AvroEncoder
from spark_kafka_native._spark.confluent.errors import EncodeError
from spark_kafka_native._spark.confluent.schemas import avro_schema
from tests.support.spark.avro_values import ORDER, ORDER_V2, avro, framed

NOON = datetime.datetime(2026, 1, 2, 12, 0, 0, 999, tzinfo=datetime.UTC)
ORDERS = pa.struct([("at", pa.timestamp("us", "Asia/Tokyo")), ("customer", pa.string()), ("id", pa.int32())])


def encoder(schema: object, ref: int | UUID | None = None) -> AvroEncoder:
    made: AvroEncoder = pickle.loads(pickle.dumps(AvroEncoder(schema=avro_schema(schema), ref=ref)))  # type: ignore[arg-type]  # any schema
    return made


@pytest.mark.feature("more.avro")
def test_avro_fields_are_matched_by_name() -> None:
    rows = pa.array([{"id": 1, "customer": "ann", "at": NOON}, None], ORDERS)
    expected = framed(7, ORDER, {"id": 1, "customer": "ann", "at": NOON.replace(microsecond=0)})
    assert encoder(ORDER, 7).encode(rows).to_pylist() == [expected, None]
    assert encoder(ORDER, 7).encode(rows.slice(1)).to_pylist() == [None]


def test_times_before_the_epoch_are_rounded_down() -> None:
    early = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.UTC)
    rows = pa.array([early], pa.timestamp("us", "UTC"))
    schema = {"type": "long", "logicalType": "timestamp-millis"}
    assert encoder(schema).encode(rows).to_pylist() == [avro("long", -1)]


def test_missing_fields_have_the_schemas_default() -> None:
    rows = pa.array([{"id": 1, "customer": "ann", "at": NOON}], ORDERS)
    (encoded,) = encoder(ORDER_V2, 8).encode(rows).to_pylist()
    assert encoded.endswith(b"\x00")
    with pytest.raises(EncodeError, match="value number 0 of its batch does not fit the schema: "):
        encoder(ORDER, 7).encode(pa.array([{"id": 1}]))


def test_encoded_avro_rows_are_decoded() -> None:
    day = {"type": "int", "logicalType": "date"}
    fields: dict[str, tuple[object, pa.DataType, list[object]]] = {
        "d": (["null", day], pa.date32(), [datetime.date(1960, 1, 1), None]),
        "dec": (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            pa.decimal128(9, 2),
            [decimal.Decimal("1.50"), decimal.Decimal("-0.01")],
        ),
        "l": ({"type": "array", "items": day}, pa.list_(pa.date32()), [[datetime.date(2000, 1, 1)], []]),
        "m": (
            {"type": "map", "values": {"type": "long", "logicalType": "timestamp-millis"}},
            pa.map_(pa.string(), pa.timestamp("us", "UTC")),
            [[("a", NOON.replace(microsecond=0)), ("b", NOON.replace(microsecond=5000))], []],
        ),
        "b": ("bytes", pa.binary(), [b"", b"\xff"]),
        "f": (["double", "null"], pa.float64(), [None, 0.5]),
    }
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": n, "type": kind} for n, (kind, _, _) in fields.items()],
    }
    columns: list[Any] = [pa.array(values, arrow) for _, arrow, values in fields.values()]
    rows: Any = pa.StructArray.from_arrays(columns, list(fields))
    for part in (rows, rows.slice(1)):
        encoded = encoder(schema, 7).encode(part)
        decoded = AvroDecoder(schema=avro_schema(schema), registry=None).decode(encoded).values
        assert decoded.to_pylist() == part.to_pylist()


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        (pa.array([{"id": 1, "customer": "a", "at": NOON, "more": 1}]), "the schema does not have the fields more"),
        (pa.array([{"id": "x", "customer": "a", "at": NOON}]), "does not fit the schema: "),
        (pa.array([{"id": None, "customer": "a", "at": NOON}]), "value number 0 of its batch does not fit"),
        (pa.array(["text"]), "the column is string, which does not fit the schema"),
    ],
)
def test_rows_that_do_not_fit_the_avro_schema(rows: Any, complaint: str) -> None:
    with pytest.raises(EncodeError, match=complaint):
        encoder(ORDER, 7).encode(rows)


def test_unknown_enum_values_are_errors() -> None:
    schema = {"type": "enum", "name": "E", "symbols": ["A"]}
    assert encoder(schema).encode(pa.array(["A"])).to_pylist() == [b"\x00"]
    with pytest.raises(EncodeError, match="value number 1 of its batch"):
        encoder(schema).encode(pa.array(["A", "B"]))


def test_encoding_no_rows() -> None:
    assert encoder(ORDER, 7).encode(pa.array([], ORDERS)).to_pylist() == []
