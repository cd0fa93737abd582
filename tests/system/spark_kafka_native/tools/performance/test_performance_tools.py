"""Tools that measure, on the bundled broker: their columns, and what they write and read."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.clients import FetchRequest, SimpleConsumer
from tests.support.clients.consuming import committed
from tests.support.tools import Tool

SUMMARY = re.compile(
    r"\d+( steady state)? records sent, [\d.]+ records/sec \([\d.]+ MB/sec\), [\d.]+ ms avg latency, "
    r"[\d.]+ ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99.9th\."
)
COMMANDS = {
    "consume": "kafka-consumer-perf-test",
    "fetch": "kafka-simple-consumer-perf-test",
    "produce": "kafka-producer-perf-test",
}
FETCHED = "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
OF_A_GROUP = f"{FETCHED}, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(topics={"there": 1}, settings={"group.initial.rebalance.delay.ms": "0"}) as running:
        yield running


@pytest.fixture
def server(broker: EmbeddedBroker) -> tuple[str, str]:
    return "--bootstrap-server", broker.bootstrap_servers


def produced(tool: Tool, server: tuple[str, str], topic: str, count: int, *more: str) -> list[str]:
    payload = () if {"--payload-file", "--record-size"} & set(more) else ("--payload-monotonic",)
    done = tool("kafka-producer-perf-test", *server, "--topic", topic, "--num-records", str(count), *payload, *more)
    assert done.status == 0, done.err
    return done.lines


def values(broker: EmbeddedBroker, topic: str) -> list[bytes]:
    with SimpleConsumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
        return [record.value for record in consumer.fetch(FetchRequest(topic, 0, 0)).records]


def test_a_producer_sends_so_many_records_and_prints_one_summary(
    tool: Tool, broker: EmbeddedBroker, server: tuple[str, str], name: str
) -> None:
    (line,) = produced(tool, server, name, 300)
    assert SUMMARY.fullmatch(line) is not None
    assert line.startswith("300 records sent, ")
    assert values(broker, name) == [b"%d" % number for number in range(300)]


def test_records_of_a_size_are_letters(tool: Tool, broker: EmbeddedBroker, server: tuple[str, str], name: str) -> None:
    produced(tool, server, name, 20, "--record-size", "50")
    found = values(broker, name)
    assert len(set(found)) == len(found) == 20
    assert all(re.fullmatch(b"[A-Z]{50}", value) for value in found)


def test_payloads_of_a_file(
    tool: Tool, broker: EmbeddedBroker, server: tuple[str, str], name: str, tmp_path: Path
) -> None:
    path = tmp_path / "payloads"
    path.write_text("one;two;three;")
    produced(tool, server, name, 100, "--payload-file", str(path), "--payload-delimiter", ";")
    assert set(values(broker, name)) == {b"one", b"two", b"three"}


def test_a_warm_up_has_a_summary_without_it(tool: Tool, server: tuple[str, str], name: str) -> None:
    lines = produced(tool, server, name, 100, "--warmup-records", "60", "--print-metrics")
    assert [line.partition(" records sent")[0] for line in lines[:2]] == ["100", "40 steady state"]
    assert all(SUMMARY.fullmatch(line) for line in lines[:2])
    assert "producer-metrics:records : 100" in lines[2:]


def test_throughput_is_the_most_records_in_a_second(tool: Tool, server: tuple[str, str], name: str) -> None:
    properties = ("--producer-props", "acks=1", "linger.ms=0")
    (line,) = produced(tool, server, name, 50, "--throughput", "200", "--json", *properties)
    record = json.loads(line)
    assert (record["kind"], record["records"]) == ("total", 50)
    assert record["recordsPerSecond"] <= 200


def test_properties_come_after_those_of_the_file(tool: Tool, broker: EmbeddedBroker, name: str, tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    serializer = "key.serializer=org.apache.kafka.common.serialization.LongSerializer"
    path.write_text(f"bootstrap.servers=127.0.0.1:1\nacks=0\n{serializer}\n")
    servers = f"bootstrap.servers={broker.bootstrap_servers}"
    properties = ("--producer.config", str(path), "--producer-props", servers, "acks=1")
    done = tool("kafka-producer-perf-test", "--topic", name, "--num-records", "3", "--payload-monotonic", *properties)
    assert (done.status, len(values(broker, name))) == (0, 3)


def test_a_group_reads_all_records(tool: Tool, broker: EmbeddedBroker, server: tuple[str, str], name: str) -> None:
    produced(tool, server, name, 2000, "--record-size", "100")
    done = tool("kafka-consumer-perf-test", *server, "--topic", name, "--num-records", "2000", "--group", name)
    header, line = done.lines
    assert header == f"start.time, end.time, {OF_A_GROUP}"
    cells = dict(zip(header.split(", "), line.split(", "), strict=True))
    assert (cells["data.consumed.in.nMsg"], cells["data.consumed.in.MB"]) == ("2000", "0.1907")
    assert float(cells["fetch.nMsg.sec"]) > float(cells["nMsg.sec"]) > 0
    assert int(cells["rebalance.time.ms"]) > 0
    assert committed(broker, name) == {0: 2000}
    rest = ("--include", f"{name}$", "--messages", "1", "--group", name, "--timeout", "50")
    again = tool("kafka-consumer-perf-test", *server, *rest)
    assert again.status == 1
    assert again.err == "kafka-consumer-perf-test: 0 of 1 records were read; none came for 50 ms (--timeout)\n"


def test_a_group_prints_each_interval(tool: Tool, server: tuple[str, str], name: str) -> None:
    produced(tool, server, name, 2000)
    detailed = ("--show-detailed-stats", "--reporting-interval", "1", "--timeout", "300")
    done = tool("kafka-consumer-perf-test", *server, "--topic", name, "--num-records", "2001", *detailed)
    assert done.lines[0] == f"time, threadId, {OF_A_GROUP}"
    counts = [int(line.split(", ")[4]) for line in done.lines[1:]]
    assert counts == sorted(counts)
    assert counts[-1] == 2000
    assert done.status == 0
    assert done.err == "WARNING: 2000 of 2001 records were read; none came for 300 ms (--timeout)\n"


def test_a_partition_is_read_without_a_group(tool: Tool, server: tuple[str, str], name: str) -> None:
    produced(tool, server, name, 2000, "--record-size", "100")
    done = tool("kafka-simple-consumer-perf-test", *server, "--topic", name, "--fetch-size", "20000")
    assert done.lines[0] == f"start.time, end.time, fetch.size, {FETCHED}"
    assert done.lines[1].split(", ")[2:4] + done.lines[1].split(", ")[5:6] == ["20000", "0.1907", "2000"]
    detailed = ("--messages", "1234", "--json", "--show-detailed-stats")
    some = tool("kafka-simple-consumer-perf-test", *server, "--topic", name, *detailed)
    assert json.loads(some.lines[-1])["data.consumed.in.nMsg"] == 1234


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (
            "produce {server} --topic t --num-records 1",
            2,
            "one of --record-size, --payload-file, --payload-monotonic is",
        ),
        ("produce --topic t {one}", 2, "--bootstrap-server is required"),
        ("produce {server} --topic t --num-records 0 --payload-monotonic", 2, "Invalid value for '--num-records'"),
        ("produce {server} --topic t {one} --throughput 0", 2, "--throughput: must be greater than 0, or -1"),
        (
            "produce {server} --topic t {one} --warmup-records 1",
            2,
            "--warmup-records: must be less than --num-records, 1",
        ),
        (
            "produce {server} --topic t {one} --producer-props acks=1 linger.ms=x",
            2,
            "--producer-props: linger.ms: 'x' is",
        ),
        ("produce {server} --topic t {one} --producer-props acks", 2, "--producer-props: KEY=VALUE is expected"),
        (
            "produce {server} --topic t {one} --transactional-id x",
            2,
            "--transactional-id is not supported: transactions",
        ),
        (
            "produce {server} --topic t --num-records 1 --payload-file /no/such/file",
            1,
            "--payload-file /no/such/file: No such file or directory",
        ),
        (
            "produce {server} --topic t --num-records 2 --record-size 2000000",
            1,
            "2 records of 2 failed; the first one: ",
        ),
        ("consume {server} --topic t", 2, "Missing option '--num-records'"),
        ("consume --topic t --num-records 1", 2, "--bootstrap-server is required"),
        ("consume {server} --include [ --num-records 1", 2, "--include: "),
        ("consume {server} --topic t --num-records 1 --command-property fetch.max.wait.ms=x", 2, "'x' is not"),
        ("fetch {server} --topic there --partition 9", 1, "topic there has no partition 9"),
        ("fetch {server} --topic no-such", 1, "topic no-such: the broker does not have this topic"),
        ("fetch {server} --topic there --from-latest", 2, "--from-latest needs --messages"),
        ("fetch {server} --topic there --date-format Q", 2, "--date-format: 'Q' is not one of"),
    ],
)
def test_mistakes_are_named(tool: Tool, server: tuple[str, str], arguments: str, status: int, said: str) -> None:
    filled = arguments.format(server=" ".join(server), one="--num-records 1 --payload-monotonic")
    command, *words = filled.split()
    done = tool(COMMANDS[command], *words)
    assert (done.status, done.out) == (status, "")
    assert said in done.err, done.err


def test_an_unreachable_broker_is_named(tool: Tool) -> None:
    properties = ("--producer-props", "bootstrap.servers=127.0.0.1:1", "max.block.ms=100")
    done = tool("kafka-producer-perf-test", "--topic", "t", "--num-records", "1", "--payload-monotonic", *properties)
    assert done.status == 1
    assert "127.0.0.1:1" in done.err
