"""Decoded records in the shape in which the reference has them."""

import pyarrow as pa

from spark_kafka_native.records.arrow.decode import Decoded


def as_rows(decoded: Decoded) -> list[dict[str, object]]:
    """Rows as ``reference_records.rows`` has them."""
    table = pa.table(decoded.records)
    return table.set_column(3, "timestamp", table["timestamp"].cast(pa.int64())).drop("timestamp_type").to_pylist()
