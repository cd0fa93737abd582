"""``kafka-producer-perf-test.sh``: how fast brokers take records, and how long each waits for its acknowledgement."""

import dataclasses
import functools
import itertools
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import numpy as np

from spark_kafka_native._command_line.commands import Options
from spark_kafka_native._command_line.output import InvalidOption, ToolFailed, say, say_json, say_record
from spark_kafka_native._command_line.parameters import (
    PATH,
    POSITIVE,
    OptionGroup,
    argument,
    flag,
    option,
    unsupported,
)
from spark_kafka_native._command_line.properties import file_error
from spark_kafka_native._protocol.errors import counted
from spark_kafka_native._record_clients.producer.futures import RecordFuture
from spark_kafka_native._record_clients.producer.producer import Producer
from spark_kafka_native._tools.options import command
from spark_kafka_native._tools.performance.client_options import SERVERS, ClientOptions
from spark_kafka_native._tools.performance.latencies import Latencies, summary_text, window_text
from spark_kafka_native._tools.tables import json_flag

_PAYLOAD: Final = OptionGroup("Payload", exclusive=True, required=True)
_CLIENT: Final = OptionGroup("Client")
_SEED: Final = 0
_LETTERS: Final = (ord("A"), ord("Z") + 1)
_POOL_BYTES: Final = 1 << 23
"""Random letters, of which payloads are slices; more than a batch, so that compression finds no payload twice in it."""


@command(
    "kafka-producer-perf-test",
    "Send records as fast as brokers take them, or as often as --throughput says, and print rates and latencies.",
    """\
A latency is the time from the call of send until the record is acknowledged. A line is printed every 5 seconds.

examples
  {command} --bootstrap-server localhost:9092 --topic events --num-records 1000000 --record-size 100
  {command} --bootstrap-server localhost:9092 --topic events --num-records 50000 --record-size 1000 \\
      --throughput 5000 --producer-props acks=1 linger.ms=0 --warmup-records 5000""",
)
@option("--topic", required=True, help="the topic to write to")
@option("--num-records", type=POSITIVE, metavar="N", required=True, help="send so many records")
@option("--record-size", type=POSITIVE, metavar="BYTES", group=_PAYLOAD, help="values of random letters")
@option("--payload-file", type=PATH, metavar="FILE", group=_PAYLOAD, help="each value is one of the file's, at random")
@flag("--payload-monotonic", group=_PAYLOAD, help="the values are 0, 1, 2, ...")
@option("--payload-delimiter", metavar="TEXT", default="\\n", show_default=True, help="between the values in the file")
@option(
    "--throughput", type=float, metavar="N", default=-1, show_default=True, help="records per second; -1: without limit"
)
@option(
    "--warmup-records",
    type=click.IntRange(min=0),
    metavar="N",
    default=0,
    help="print a summary without the first N records, too",
)
@flag("--print-metrics", help="print the counters of the producer at the end")
@option("--bootstrap-server", metavar="HOST:PORT[,...]", group=_CLIENT, help="brokers of the cluster")
@option("--command-config", type=PATH, metavar="FILE", group=_CLIENT, help="a file with properties of the producer")
@option("--producer.config", "producer_config", type=PATH, metavar="FILE", group=_CLIENT, help="as --command-config")
@option(
    "--producer-props",
    "--command-property",
    "properties",
    multiple=True,
    metavar="KEY=VALUE ...",
    group=_CLIENT,
    help="properties of the producer; they replace those of the file",
)
@unsupported("transactions are for the data source", "--transactional-id", "--transaction-duration-ms")
@json_flag
@argument("more", nargs=-1, metavar="")
def producer_perf_test(**given: Any) -> None:
    """Raises ToolFailed: records were not acknowledged."""
    options = Options(**given)
    client = _client(options)
    if not options.throughput > 0 and options.throughput != -1:
        raise InvalidOption("--throughput: must be greater than 0, or -1")
    if options.warmup_records >= options.num_records:
        raise InvalidOption(f"--warmup-records: must be less than --num-records, {options.num_records}")
    payloads = _payloads(options)
    with client.naming(), Producer(client.properties) as producer:
        run = _Run(options, producer)
        run.send_all(payloads)
    run.report()


class _Run:
    """The records of one call. ``_done`` is called in the thread that sends."""

    def __init__(self, options: Options, producer: Producer) -> None:
        self._options = options
        self._producer = producer
        self._warmup: int = options.warmup_records
        self._all = Latencies(options.num_records, self._show)
        self._steady: Latencies | None = None
        self._error: BaseException | None = None
        self._failed = 0

    def send_all(self, payloads: Iterator[bytes]) -> None:
        """Send all records, and wait for their acknowledgements."""
        options, send = self._options, self._producer.send
        pause = _pauses(options.throughput)
        for number, payload in enumerate(itertools.islice(payloads, options.num_records)):
            if number == self._warmup > 0:
                self._all.end_windows()
                self._steady = Latencies(options.num_records - self._warmup, self._show)
            steady = self._steady
            future = send(options.topic, payload)
            future.add_done_callback(functools.partial(self._done, time.perf_counter(), len(payload), steady))
            pause(number + 1)
        self._producer.flush()

    def report(self) -> None:
        """Print the summaries. Raises ToolFailed: records were not acknowledged."""
        for latencies, kind in ((self._all, ""), (self._steady, "steady state")):
            if latencies is not None and latencies.total.records:
                summary = latencies.summary()
                record = {"kind": kind or "total", **summary}
                say_record(record, summary_text(summary, kind), as_json=self._options.as_json)
        if self._options.print_metrics:
            metrics = dataclasses.asdict(self._producer.metrics)
            if self._options.as_json:
                say_json({"kind": "metrics", **metrics})
            else:
                for name, value in metrics.items():
                    say(f"producer-metrics:{name} : {value}")
        if self._error is not None:
            text = f"{counted(self._failed, 'record')} of {self._options.num_records} failed"
            raise ToolFailed(f"{text}; the first one: {self._error}")

    def _done(self, sent_at: float, size: int, steady: Latencies | None, future: RecordFuture) -> None:
        if (error := future.exception()) is not None:
            self._failed += 1
            self._error = self._error or error
            return
        latency_ms = (time.perf_counter() - sent_at) * 1000
        self._all.add(size, latency_ms)
        if steady is not None:
            steady.add(size, latency_ms)

    def _show(self, window: dict[str, Any]) -> None:
        say_record({"kind": "window", **window}, window_text(window), as_json=self._options.as_json)


def _client(options: Options) -> ClientOptions:
    """Raises InvalidOption, ToolFailed."""
    client = ClientOptions()
    client.add("", {"client.id": "perf-producer-client"})
    client.add_file("--command-config", options.command_config)
    client.add_file("--producer.config", options.producer_config)
    client.add_pairs("--producer-props", [*options.properties, *options.more])
    if options.bootstrap_server is not None:
        client.add(SERVERS, {"bootstrap.servers": options.bootstrap_server})
    elif "bootstrap.servers" not in client.properties:
        raise InvalidOption(f"{SERVERS} is required")
    return client


def _pauses(throughput: float) -> Callable[[int], None]:
    """From the number of records so far: wait, so that there are no more in a second."""
    began = time.perf_counter()

    def pause(count: int) -> None:
        if (early_s := began + count / throughput - time.perf_counter()) > 0:
            time.sleep(early_s)

    return (lambda _: None) if throughput == -1 else pause


def _payloads(options: Options) -> Iterator[bytes]:
    """Values without end. Raises ToolFailed: the file cannot be read, or is empty."""
    if options.payload_monotonic:
        return (b"%d" % number for number in itertools.count())
    dice = random.Random(_SEED)
    if options.record_size is not None:
        return _letters(options.record_size, dice)
    path: Path = options.payload_file
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ToolFailed(f"--payload-file {path}: {file_error(error)}") from error
    delimiter = options.payload_delimiter.replace("\\n", "\n").replace("\\t", "\t")
    values = [value.encode() for value in text.removesuffix(delimiter).split(delimiter)]
    if values == [b""]:
        raise ToolFailed(f"--payload-file {path}: the file is empty")
    return iter(lambda: dice.choice(values), None)


def _letters(size: int, dice: random.Random) -> Iterator[bytes]:
    pool = np.random.default_rng(_SEED).integers(*_LETTERS, size + _POOL_BYTES, np.uint8).tobytes()
    while True:
        begin = dice.randrange(_POOL_BYTES)
        yield pool[begin : begin + size]
