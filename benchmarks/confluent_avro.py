"""Values in Confluent's wire format, per second and core: taking the header off, decoding Avro, encoding it.

    python -m benchmarks.confluent_avro [--rows 100000] [--rounds 5]

Without Spark and without a registry: what the UDFs do in a worker. Medians of the rounds.
"""

import functools
import io
import statistics
import time
from collections.abc import Callable

import pyarrow as pa
from fastavro import parse_schema, schemaless_writer

from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import measure
from spark_kafka_native._records.confluent_header import build_header
from spark_kafka_native._spark.confluent.decoding import AvroDecoder
from spark_kafka_native._spark.confluent.encoding import AvroEncoder
from spark_kafka_native._spark.confluent.schemas import avro_schema
from spark_kafka_native._spark.confluent.wire import split

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": "string"},
        {"name": "amount", "type": "double"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
BATCH_ROWS = 10_000


def one_value(number: int) -> bytes:
    """A value of some forty bytes."""
    stream = io.BytesIO()
    row = {"id": number, "customer": f"customer-{number % 997}", "amount": number / 7, "note": "x", "tags": ["a", "b"]}
    schemaless_writer(stream, parse_schema(ORDER), row | {"at": 1_700_000_000_000 + number})
    return build_header(7) + stream.getvalue()


def cpu_seconds(work: Callable[[], object]) -> float:
    """Seconds of processor time of one round."""
    started = time.process_time()
    work()
    return time.process_time() - started


def main() -> None:
    """Measure and report."""
    parser = arguments(__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    options = parse(parser, rows=1_000)
    report = Report("confluent_avro", "Confluent's wire format and Avro, without Spark", options)
    values = pa.array([one_value(number) for number in range(options.rows)], pa.binary())
    batches = [values.slice(start, BATCH_ROWS) for start in range(0, len(values), BATCH_ROWS)]
    schema = avro_schema(ORDER)
    decoder, encoder = AvroDecoder(schema=schema, registry=None), AvroEncoder(schema=schema, ref=7)
    structs = [decoder.decode(batch).values for batch in batches]
    work: dict[str, Callable[[], object]] = {
        "header off": lambda: [split(batch) for batch in batches],
        "decode Avro": lambda: [decoder.decode(batch) for batch in batches],
        "encode Avro": lambda: [encoder.encode(batch) for batch in structs],
    }
    seconds = measure({name: functools.partial(cpu_seconds, case) for name, case in work.items()}, options.rounds)
    rows: list[list[Cell]] = []
    for name, found in seconds.items():
        median = statistics.median(found)
        rows.append([name, round(options.rows / median), median / options.rows * 1e6])
    report.table(("case", "rows/s", "us/row"), rows, f"{options.rows:,} rows of {values.nbytes // len(values)} B")
    report.keep(seconds).save()


if __name__ == "__main__":
    main()
