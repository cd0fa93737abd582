"""Schemas as users write them, and records to fill them with."""

from typing import Final

import pyarrow as pa
from pyspark.sql.types import StructType, _parse_datatype_json_string

from spark_kafka_native._protocol.topic import TopicPartition

PARTITION: Final = TopicPartition("events", 3)
RECORDS = pa.RecordBatch.from_pydict(
    {
        "key": pa.array([b"k", None], pa.binary()),
        "value": pa.array([None, b"\xff\xfe"], pa.binary()),
        "offset": pa.array([7, 9], pa.int64()),
        "timestamp": pa.array([1_700_000_000_123, -1], pa.timestamp("ms", tz="UTC")),
        "timestamp_type": pa.array([0, -1], pa.int32()),
        "headers": pa.array(
            [None, [{"key": "a", "value": b"1"}, {"key": "a", "value": None}]],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    }
)
"""Records of ``PARTITION`` as the decoder makes them."""


def _map(value: str) -> str:
    return f'{{"type":"map","keyType":"string","valueType":"{value}","valueContainsNull":true}}'


def _array(value: str) -> str:
    fields = [
        f'{{"name":"{name}","type":"{kind}","nullable":true,"metadata":{{}}}}'
        for name, kind in (("key", "string"), ("value", value))
    ]
    return f'{{"type":"array","elementType":{{"type":"struct","fields":[{",".join(fields)}]}},"containsNull":true}}'


PLAIN_HEADERS: Final = _array("binary")
HEADER_SHAPES: Final = (PLAIN_HEADERS, _array("string"), _map("binary"), _map("string"))
"""Types that the column ``headers`` may have: as JSON, as ``user_schema`` takes them."""


def user_schema(**columns: str | tuple[str, bool]) -> StructType:
    fields = []
    for name, spec in columns.items():
        kind, nullable = (spec, True) if isinstance(spec, str) else spec
        fields.append(f'{{"name":"{name}","type":{kind},"nullable":{str(nullable).lower()},"metadata":{{}}}}')
    schema = _parse_datatype_json_string(f'{{"type":"struct","fields":[{",".join(fields)}]}}')
    assert isinstance(schema, StructType)
    return schema
