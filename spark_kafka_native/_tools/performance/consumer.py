"""``kafka-consumer-perf-test.sh``: how fast a member of a consumer group reads."""

import random
import time
from collections.abc import Sequence
from typing import Any, Final

from spark_kafka_native._client.groups.topic_filters import Whitelist
from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, complain
from spark_kafka_native._command_line.parameters import PATH, POSITIVE, OptionGroup, flag, option, unsupported
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._record_clients.consumer.connector import ConsumerConnector
from spark_kafka_native._record_clients.consumer.rebalance_listener import RebalanceListener
from spark_kafka_native._record_clients.consumer.streams import MessageStream
from spark_kafka_native._record_clients.errors import ConsumerTimeout
from spark_kafka_native._tools.options import command
from spark_kafka_native._tools.performance.client_options import SERVERS, ClientOptions
from spark_kafka_native._tools.performance.rates import Cells, RateTable, Read, rate_options

_MIB: Final = 1 << 20
_TOPICS: Final = OptionGroup("Topics", exclusive=True, required=True)
_CLIENT: Final = OptionGroup("Client")
_LOOK_MS: Final = 100
"""How often it is checked whether an interval or --timeout is over, while no records come."""


@command(
    "kafka-consumer-perf-test",
    "Read records as a member of a consumer group, and print rates.",
    """\
rebalance.time.ms is the time without partitions; fetch.time.ms is the rest.

examples
  {command} --bootstrap-server localhost:9092 --topic events --num-records 1000000
  {command} --bootstrap-server localhost:9092 --include 'orders|visits' --num-records 1000000 --show-detailed-stats""",
)
@option("--topic", group=_TOPICS, help="the topic to read")
@option("--include", metavar="REGEX", group=_TOPICS, help="read all topics whose names match")
@option(
    "--num-records", "--messages", "num_records", type=POSITIVE, metavar="N", required=True, help="end after N records"
)
@option(
    "--timeout",
    type=POSITIVE,
    metavar="MS",
    default=10_000,
    show_default=True,
    help="end if no record was read for this time",
)
@option("--group", metavar="ID", help="the consumer group (perf-consumer- and a random number)")
@flag("--from-latest", help="without committed offsets, start at the latest record instead of the earliest")
@option(
    "--fetch-size",
    type=POSITIVE,
    metavar="BYTES",
    default=_MIB,
    show_default=True,
    help="max.partition.fetch.bytes: bytes of a partition in a response",
)
@option("--socket-buffer-size", type=POSITIVE, metavar="BYTES", help="receive.buffer.bytes")
@rate_options
@option(
    "--bootstrap-server",
    "--broker-list",
    "bootstrap_server",
    metavar="HOST:PORT[,...]",
    group=_CLIENT,
    help="brokers of the cluster",
)
@option("--command-config", type=PATH, metavar="FILE", group=_CLIENT, help="a file with properties of the consumer")
@option("--consumer.config", "consumer_config", type=PATH, metavar="FILE", group=_CLIENT, help="as --command-config")
@option(
    "--command-property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE",
    group=_CLIENT,
    help="a property of the consumer; it replaces that of the file",
)
@unsupported("the consumer has no metrics besides these columns", "--print-metrics")
def consumer_perf_test(**given: Any) -> None:
    """Ends when --num-records were read, or when none came for --timeout."""
    options = Options(**given)
    client = _client(options)
    joining = _Joining()
    table = RateTable(options, joining.cells, first={"threadId": 0} if options.show_detailed_stats else None)
    with client.naming(), ConsumerConnector(client.properties, rebalance_listener=joining) as consumer:
        streams = (
            consumer.create_message_streams({options.topic: 1})[options.topic]
            if options.topic is not None
            else consumer.create_message_streams_by_filter(_filter(options.include))
        )
        read = _read(streams[0], options, table)
    if read < options.num_records:
        text = f"{read} of {options.num_records} records were read; none came for {options.timeout} ms (--timeout)"
        if not read:
            raise ToolFailed(text)
        complain(f"WARNING: {text}")


class _Joining(RebalanceListener):
    """The time without partitions, from the start on. Another thread calls it than the one that reads."""

    def __init__(self) -> None:
        self._partitions: set[TopicPartition] = set()
        self._since: float | None = time.time()
        self._seconds = 0.0
        self._printed = 0.0

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """As `RebalanceListener`."""
        self._partitions.update(partitions)
        since, self._since = self._since, None
        if since is not None:
            self._seconds += time.time() - since

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """As `RebalanceListener`."""
        self._partitions.difference_update(partitions)
        if not self._partitions:
            self._since = time.time()

    def cells(self, before: Read, now: Read) -> Cells:
        """The columns of a line, about the time since the last one."""
        since = self._since
        total = self._seconds + (max(now.at - since, 0.0) if since is not None else 0.0)
        rebalance_ms = round((total - self._printed) * 1000)
        self._printed = total
        fetch_ms = max(round((now.at - before.at) * 1000) - rebalance_ms, 0)
        seconds = fetch_ms / 1000
        return {
            "rebalance.time.ms": rebalance_ms,
            "fetch.time.ms": fetch_ms,
            "fetch.MB.sec": (now.bytes - before.bytes) / _MIB / seconds if seconds else 0.0,
            "fetch.nMsg.sec": (now.records - before.records) / seconds if seconds else 0.0,
        }


def _read(stream: MessageStream, options: Options, table: RateTable) -> int:
    """Read and print; the number of records."""
    records = size = 0
    wanted, read_at = options.num_records, time.time()
    while records < wanted:
        before = records
        try:
            for record in stream:
                records += 1
                size += len(record.key or b"") + len(record.value or b"")
                if records == wanted or table.is_due(time.time()):
                    break
        except ConsumerTimeout:
            pass
        now = Read(time.time(), records, size)
        if records > before:
            read_at = now.at
        elif now.at - read_at > options.timeout / 1000:
            break
        table.note(now)
    table.end(Read(time.time(), records, size))
    return records


def _filter(expression: str) -> Whitelist:
    try:
        return Whitelist(expression)
    except ValueError as error:
        raise InvalidOption(f"--include: {error}") from None


def _client(options: Options) -> ClientOptions:
    """Raises InvalidOption, ToolFailed."""
    client = ClientOptions()
    group_id = options.group or f"perf-consumer-{random.randrange(100_000)}"
    client.add("", {"client.id": "perf-consumer-client"})
    client.add_file("--command-config", options.command_config)
    client.add_file("--consumer.config", options.consumer_config)
    client.add_pairs("--command-property", options.properties)
    if options.bootstrap_server is not None:
        client.add(SERVERS, {"bootstrap.servers": options.bootstrap_server})
    elif not client.properties.keys() & {"bootstrap.servers", "zookeeper.connect"}:
        raise InvalidOption(f"{SERVERS} is required")
    client.add("--group", {"group.id": group_id})
    client.add("--fetch-size", {"max.partition.fetch.bytes": str(options.fetch_size)})
    client.add("--from-latest", {"auto.offset.reset": "latest" if options.from_latest else "earliest"})
    client.add("", {"consumer.timeout.ms": str(_LOOK_MS)})
    if options.socket_buffer_size is not None:
        client.add("--socket-buffer-size", {"receive.buffer.bytes": str(options.socket_buffer_size)})
    return client
