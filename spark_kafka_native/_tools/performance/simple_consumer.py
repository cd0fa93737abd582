"""``kafka-simple-consumer-perf-test.sh`` of Kafka 0.8 to 0.10: how fast one partition is read, without a group."""

import time
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed
from spark_kafka_native._command_line.parameters import INT32, PATH, POSITIVE, OptionGroup, flag, option
from spark_kafka_native._record_clients.consumer.fetches import FetchRequest
from spark_kafka_native._record_clients.consumer.simple import SimpleConsumer
from spark_kafka_native._tools.options import command
from spark_kafka_native._tools.performance.client_options import SERVERS, ClientOptions
from spark_kafka_native._tools.performance.rates import RateTable, Read, rate_options

_MIB: Final = 1 << 20
_CLIENT: Final = OptionGroup("Client")


@command(
    "kafka-simple-consumer-perf-test",
    "Read a partition from its first record to its end, or until --messages were read, and print rates.",
    """\
A Fetch request is sent after the response to the one before.

example
  {command} --bootstrap-server localhost:9092 --topic events --partition 2 --fetch-size 4194304""",
)
@option("--topic", required=True, help="the topic to read")
@option("--partition", type=INT32, metavar="N", default=0, show_default=True, help="the partition to read")
@option("--messages", type=POSITIVE, metavar="N", help="end after N records (the end of the partition)")
@flag("--from-latest", help="start at the end, and wait for --messages new records")
@option(
    "--fetch-size",
    type=POSITIVE,
    metavar="BYTES",
    default=_MIB,
    show_default=True,
    help="bytes of record batches in a response",
)
@rate_options
@option(
    "--bootstrap-server",
    "--server",
    "bootstrap_server",
    metavar="HOST:PORT[,...]",
    group=_CLIENT,
    help="brokers of the cluster",
)
@option(
    "--clientId", "client_id", metavar="ID", default="SimpleConsumerPerformanceClient", group=_CLIENT, help="client.id"
)
@option("--command-config", type=PATH, metavar="FILE", group=_CLIENT, help="a file with properties of the consumer")
def simple_consumer_perf_test(**given: Any) -> None:
    """Raises ToolFailed: there is no such partition."""
    options = Options(**given)
    if options.from_latest and options.messages is None:
        raise InvalidOption("--from-latest needs --messages")
    client = ClientOptions()
    client.add("--clientId", {"client.id": options.client_id})
    client.add_file("--command-config", options.command_config)
    if options.bootstrap_server is None:
        raise InvalidOption(f"{SERVERS} is required")
    client.add(SERVERS, {"bootstrap.servers": options.bootstrap_server})
    with client.naming(), SimpleConsumer(client.properties) as consumer:
        _read(consumer, options, RateTable(options, first={"fetch.size": options.fetch_size}))


def _read(consumer: SimpleConsumer, options: Options, table: RateTable) -> None:
    """Read and print. Raises KafkaError."""
    topic, partition = options.topic, options.partition
    if partition not in consumer.metadata([topic]).topics[topic].partitions:
        raise ToolFailed(f"topic {topic} has no partition {partition}")
    time_ms = consumer.LATEST_TIME if options.from_latest else consumer.EARLIEST_TIME
    (offset,) = consumer.offsets_before(topic, partition, time_ms)
    records = size = 0
    wanted = options.messages
    while wanted is None or records < wanted:
        result = consumer.fetch(FetchRequest(topic, partition, offset, max_bytes=options.fetch_size))
        rows = result.to_arrow()
        if wanted is not None:
            rows = rows.slice(0, wanted - records)
        records += rows.num_rows
        size += _bytes_of(rows["key"]) + _bytes_of(rows["value"])
        if result.next_offset == offset and not options.from_latest:
            break
        offset = result.next_offset
        table.note(Read(time.time(), records, size))
    table.end(Read(time.time(), records, size))


def _bytes_of(column: "pa.Array[Any]") -> int:
    lengths: Any = pc.call_function("binary_length", [column])
    return int(pc.sum(lengths).as_py() or 0)
