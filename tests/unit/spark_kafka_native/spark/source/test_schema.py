import pickle

import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from spark_kafka_native._spark.errors import PlanError
from spark_kafka_native._spark.source.layout import layout_of
from spark_kafka_native._spark.source.schema import source_schema
from tests.support.spark.user_schemas import HEADER_SHAPES, PLAIN_HEADERS, user_schema


def test_columns_and_order_are_those_of_the_jvm_connector() -> None:
    without = source_schema(include_headers=False)
    assert without.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    with_headers = source_schema(include_headers=True)
    assert with_headers.fieldNames() == [*without.fieldNames(), "headers"]
    assert with_headers["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert all(field.nullable for field in with_headers.fields)


@pytest.mark.parametrize("include_headers", [False, True])
def test_arrow_schema_matches_the_spark_schema(include_headers: bool) -> None:
    schema = source_schema(include_headers=include_headers)
    assert layout_of(schema).arrow_schema == to_arrow_schema(schema, timezone="UTC")


BAD_HEADERS = [
    '"string"',
    '{"type":"map","keyType":"binary","valueType":"binary","valueContainsNull":true}',
    '{"type":"map","keyType":"string","valueType":"integer","valueContainsNull":true}',
    '{"type":"map","keyType":"string","valueType":"binary","valueContainsNull":false}',
    '{"type":"array","elementType":"binary","containsNull":true}',
    PLAIN_HEADERS.replace('"name":"key"', '"name":"name"'),
    PLAIN_HEADERS.replace('"type":"binary","nullable":true', '"type":"binary","nullable":false'),
]


@pytest.mark.feature("more.projection")
@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        (
            {"valeu": '"binary"'},
            "'valeu' is not a column of the source; its columns are key, value, topic, partition, offset, timestamp",
        ),
        ({"value": '"integer"'}, "'value' cannot be read as int; its type is binary or string"),
        ({"offset": '"string"'}, "'offset' cannot be read as string; its type is bigint"),
        ({"offset": '"integer"'}, "'offset' cannot be read as int; its type is bigint"),
        ({"partition": '"long"'}, "'partition' cannot be read as bigint; its type is int"),
        ({"topic": '"binary"'}, "'topic' cannot be read as binary; its type is string"),
        (
            {"timestamp": '"timestamp_ntz"'},
            "'timestamp' cannot be read as timestamp_ntz; its type is timestamp, or bigint for milliseconds",
        ),
        ({"value": ('"binary"', False)}, "'value' cannot be NOT NULL"),
        *[({"headers": shape}, "; its type is array<struct<") for shape in BAD_HEADERS],
        ({"headers": (PLAIN_HEADERS, False)}, "'headers' cannot be NOT NULL"),
    ],
)
def test_bad_user_schemas(columns: dict[str, str], complaint: str) -> None:
    with pytest.raises(PlanError) as caught:
        layout_of(user_schema(**columns))
    assert caught.value.code == "PYKAFKA_SCHEMA"
    assert complaint in caught.value.message


def test_not_null_is_kept_where_no_null_can_be() -> None:
    schema = user_schema(offset=('"long"', False))
    assert layout_of(schema).arrow_schema == to_arrow_schema(schema, timezone="UTC")


@pytest.mark.feature("more.projection")
@pytest.mark.parametrize("shape", HEADER_SHAPES)
def test_headers_in_other_shapes_have_the_arrow_twin_that_spark_demands(shape: str) -> None:
    schema = user_schema(headers=shape)
    assert layout_of(schema).arrow_schema == to_arrow_schema(schema, timezone="UTC")


@pytest.mark.feature("more.projection")
def test_timestamps_as_milliseconds() -> None:
    schema = user_schema(Timestamp='"long"')
    layout = layout_of(schema)
    assert layout.arrow_schema == to_arrow_schema(schema, timezone="UTC")
    assert layout.record_fields == ("timestamp",)


@pytest.mark.feature("more.strings")
def test_offset_is_decoded_for_utf8_errors() -> None:
    text, plain = user_schema(value='"string"'), user_schema(value='"binary"', topic='"string"')
    assert layout_of(text, "fail").record_fields == ("value", "offset")
    assert layout_of(text, "replace").record_fields == ("value",)
    assert layout_of(plain, "fail").record_fields == ("value",)
    assert layout_of(user_schema(headers=HEADER_SHAPES[1]), "fail").record_fields == ("headers", "offset")


def test_layout_is_pickled_and_finds_columns() -> None:
    layout = layout_of(user_schema(offset='"long"', Value='"binary"'))
    assert layout.record_fields == ("offset", "value")
    assert pickle.loads(pickle.dumps(layout)) == layout
    found = layout.source_of("vALUE")
    assert found is not None
    assert found.source == "value"
    assert layout.source_of("key") is None
