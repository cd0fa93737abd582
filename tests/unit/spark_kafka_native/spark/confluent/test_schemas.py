import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

pytest.importorskip("fastavro")

from spark_kafka_native._spark.confluent.errors import SchemaError
from spark_kafka_native._spark.confluent.schemas import avro_schema, writer_schema


def record(*fields: object, name: str = "R") -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{at}", "type": kind} for at, kind in enumerate(fields)],
    }


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}


@pytest.mark.feature("more.avro")
@pytest.mark.parametrize(
    ("avro", "declared", "arrow"),
    [
        ("boolean", "boolean", pa.bool_()),
        ("int", "int", pa.int32()),
        ("long", "bigint", pa.int64()),
        ("float", "float", pa.float32()),
        ("double", "double", pa.float64()),
        ("bytes", "binary", pa.binary()),
        ("string", "string", pa.string()),
        ("null", "void", pa.null()),
        ({"type": "string", "avro.java.string": "String"}, "string", pa.string()),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string", pa.string()),
        ({"type": "fixed", "name": "F", "size": 4}, "binary", pa.binary()),
        ({"type": "array", "items": "int"}, "array<int>", pa.list_(pa.int32())),
        ({"type": "map", "values": "long"}, "map<string,bigint>", pa.map_(pa.string(), pa.int64())),
        ({"type": "int", "logicalType": "date"}, "date", pa.date32()),
        ({"type": "long", "logicalType": "timestamp-millis"}, "timestamp", pa.timestamp("ms", "UTC")),
        ({"type": "long", "logicalType": "timestamp-micros"}, "timestamp", pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz", pa.timestamp("ms")),
        ({"type": "int", "logicalType": "time-millis"}, "int", pa.int32()),
        ({"type": "string", "logicalType": "uuid"}, "string", pa.string()),
        (DECIMAL, "decimal(9,2)", pa.decimal128(9, 2)),
        ({**DECIMAL, "type": "fixed", "name": "D", "size": 5}, "decimal(9,2)", pa.decimal128(9, 2)),
        ({**DECIMAL, "precision": 50}, "binary", pa.binary()),
        (["null", "string"], "string", pa.string()),
        ([{"type": "long", "logicalType": "timestamp-micros"}, "null"], "timestamp", pa.timestamp("us", "UTC")),
        (["int", "null", "long"], "bigint", pa.int64()),
        (["float", "double"], "double", pa.float64()),
    ],
)
def test_spark_types_of_avro_types(avro: Any, declared: str, arrow: pa.DataType) -> None:
    found = avro_schema(record(avro))
    assert isinstance(found.spark, StructType)
    assert found.spark["f0"].dataType.simpleString() == declared
    assert found.spark["f0"].nullable
    assert found.arrow == pa.struct([("f0", arrow)])


def test_avro_schemas_other_than_records() -> None:
    assert avro_schema('"long"').spark.simpleString() == "bigint"
    assert avro_schema(["null", "string"]).spark.simpleString() == "string"


def test_a_type_that_is_used_twice_by_its_name() -> None:
    address = record("string", name="Address")
    found = avro_schema({**record(address, "Address", ["null", "shop.Address"]), "namespace": "shop"})
    assert found.spark.simpleString() == "struct<f0:struct<f0:string>,f1:struct<f0:string>,f2:struct<f0:string>>"
    assert found.text.count('"fields"') == 2


def test_avro_schema_can_be_pickled() -> None:
    city, address = record("string", name="City"), record("City", name="Address")
    found = avro_schema(record("Address", "City"), [json.dumps(city), json.dumps(address)])
    assert found.spark.simpleString() == "struct<f0:struct<f0:struct<f0:string>>,f1:struct<f0:string>>"
    assert pickle.loads(pickle.dumps(found)) == found == avro_schema(found.text)


@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        ("{", "not a valid Avro schema: JSONDecodeError"),
        ('"strin"', "not a valid Avro schema: UnknownType: strin"),
        ("5", "not a valid Avro schema: TypeError"),
        ({"type": "recrd", "name": "R"}, "not a valid Avro schema"),
        (record("Absent"), "not a valid Avro schema: UnknownType: Absent"),
        (record(["string", "int"]), "field f0 is a union of 2 types, for which Spark has none"),
        (record({"type": "array", "items": ["string", "int"]}), "items of field f0 is a union"),
        (record(["null", "R"]), "field f0 contains R in itself; Spark has no recursive types"),
    ],
)
def test_invalid_avro_schemas_and_those_without_a_spark_type(schema: Any, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        avro_schema(schema)


def test_values_may_be_written_with_schemas_that_have_no_spark_type() -> None:
    writer_schema(record(["string", "int"]))
    writer_schema(record(["null", "R"]))
    with pytest.raises(SchemaError, match="not a valid Avro schema"):
        writer_schema("{")
