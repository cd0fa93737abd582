"""Single records: our producer, kafka-python and confluent-kafka, on the bundled broker.

    python -m benchmarks.record_producer [--rounds 5] [--records 200000] [--bytes 100] [--sync 500]

- async: from the first ``send`` to the end of ``flush``, with a key to each record, over four partitions. All with
  acks=all, idempotence and linger.ms=5; each keeps the future or calls back, as a program that checks its records does.
- sync: one record after the other, each acknowledged before the next one.

The broker is a process of its own on the same machine, so that it takes part of the processor time of the clients.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer as ConfluentProducer
from kafka import KafkaProducer

from benchmarks.support.report import Cell, Report, arguments, parse
from benchmarks.support.rounds import measure
from broker_embedded.testing import BrokerProcess
from spark_kafka_native.clients import Producer

_PARTITIONS: Final = 4
_LINGER_MS: Final = 5
Run = Callable[[int, bytes], float]


def ours(servers: str) -> dict[str, Run]:
    """Our producer, asynchronous and synchronous."""

    def asynchronous(count: int, value: bytes) -> float:
        with Producer({"bootstrap.servers": servers, "linger.ms": _LINGER_MS}) as producer:
            producer.send("t", value).result()
            begun = time.perf_counter()
            futures = [producer.send("t", value, key=b"%d" % number) for number in range(count)]
            producer.flush()
            took = time.perf_counter() - begun
        assert all(future.exception() is None for future in futures)
        return took

    def synchronous(count: int, value: bytes) -> float:
        with Producer({"bootstrap.servers": servers, "producer.type": "sync"}) as producer:
            producer.send("t", value)
            begun = time.perf_counter()
            for number in range(count):
                producer.send("t", value, key=b"%d" % number)
            return time.perf_counter() - begun

    return {"async": asynchronous, "sync": synchronous}


def kafka_python(servers: str) -> dict[str, Run]:
    """kafka-python, a pure Python client."""

    def made(linger_ms: int) -> Any:
        return KafkaProducer(bootstrap_servers=servers, acks="all", enable_idempotence=True, linger_ms=linger_ms)

    def asynchronous(count: int, value: bytes) -> float:
        producer = made(_LINGER_MS)
        producer.send("t", value).get()
        begun = time.perf_counter()
        futures = [producer.send("t", value, key=b"%d" % number) for number in range(count)]
        producer.flush()
        took = time.perf_counter() - begun
        assert all(future.succeeded() for future in futures)
        producer.close()
        return took

    def synchronous(count: int, value: bytes) -> float:
        producer = made(0)
        producer.send("t", value).get()
        begun = time.perf_counter()
        for number in range(count):
            producer.send("t", value, key=b"%d" % number).get()
        took = time.perf_counter() - begun
        producer.close()
        return took

    return {"async": asynchronous, "sync": synchronous}


def confluent(servers: str) -> dict[str, Run]:
    """confluent-kafka, whose producer is librdkafka in C."""

    def made(linger_ms: int) -> Any:
        queue = {"queue.buffering.max.messages": 1_000_000}
        options = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": linger_ms, **queue}
        return ConfluentProducer(options)

    def asynchronous(count: int, value: bytes) -> float:
        producer, delivered = made(_LINGER_MS), []
        producer.produce("t", value)
        producer.flush()
        begun = time.perf_counter()
        for number in range(count):
            producer.produce("t", value, b"%d" % number, on_delivery=lambda error, _: delivered.append(error))
            producer.poll(0)
        producer.flush()
        took = time.perf_counter() - begun
        assert delivered == [None] * count
        return took

    def synchronous(count: int, value: bytes) -> float:
        producer = made(0)
        producer.produce("t", value)
        producer.flush()
        begun = time.perf_counter()
        for number in range(count):
            producer.produce("t", value, b"%d" % number)
            producer.flush()
        return time.perf_counter() - begun

    return {"async": asynchronous, "sync": synchronous}


def main() -> None:
    """Measure all clients in turns and report."""
    parser = arguments(__doc__)
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=100)
    parser.add_argument("--sync", type=int, default=500)
    options = parse(parser, records=1000, sync=20)
    report = Report("record_producer", "Producers of single records", options)
    value = b"x" * options.bytes
    counts = {"async": options.records, "sync": options.sync}
    rates: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as directory, BrokerProcess(Path(directory)) as broker:
        broker.create_topic("t", _PARTITIONS)
        clients = {"ours": ours, "kafka-python": kafka_python, "confluent-kafka": confluent}
        runs = {name: make(broker.bootstrap_servers) for name, make in clients.items()}
        for kind, count in counts.items():

            def case(name: str, kind: str = kind, count: int = count) -> Callable[[], float]:
                return lambda: runs[name][kind](count, value)

            seconds = measure({name: case(name) for name in runs}, options.rounds, title=kind)
            rates[kind] = {name: count / statistics.median(found) for name, found in seconds.items()}
            report.keep({f"{kind}, seconds": seconds})
    rows: list[list[Cell]] = [[name, *(round(rates[kind][name]) for kind in counts)] for name in runs]
    title = f"records of {options.bytes} bytes per second, medians of {options.rounds} rounds"
    report.table(("", "async", "sync"), rows, title)
    report.save()


if __name__ == "__main__":
    main()
