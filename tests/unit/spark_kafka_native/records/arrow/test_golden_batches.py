import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_native._records.arrow.decode import decode
from spark_kafka_native._records.batch import CompressionType, check_crc, read_header

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[4] / "golden" / "record_batches.json").read_text(encoding="utf-8")
)


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("golden", GOLDEN["batches"], ids=lambda golden: f"{golden['writer']}, codec {golden['codec']}")
def test_batches_of_other_clients_are_read(golden: dict[str, Any]) -> None:
    buffer = bytes.fromhex(golden["batch"])
    header = read_header(buffer)
    check_crc(buffer, 0, header)
    assert header.compression is CompressionType(golden["codec"])
    assert header.max_timestamp == max(record["timestamp"] for record in GOLDEN["records"])
    table = pa.table(decode(buffer, from_offset=0, until_offset=10).records)
    table = table.set_column(3, "timestamp", table["timestamp"].cast(pa.int64()))
    assert table.to_pylist() == [
        {
            "key": unhex(record["key"]),
            "value": unhex(record["value"]),
            "offset": offset,
            "timestamp": record["timestamp"],
            "timestamp_type": 0,
            "headers": [{"key": key, "value": unhex(value)} for key, value in record["headers"]] or None,
        }
        for offset, record in enumerate(GOLDEN["records"])
    ]
