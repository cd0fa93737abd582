import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.lookup_tables.stores import tables_for
from spark_kafka_native._client.partitioning.partitioner_names import TableLocation
from spark_kafka_native._client.producer.producer import Producer
from tests.support.clients.native import config_of
from tests.support.servers.brokers import AnyBroker
from tests.support.tools import Tool, ToolResult
from tests.support.waiting import eventually

NUMBERS = itertools.count(1)


@pytest.fixture(params=["topic", "file"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    kind: str = request.param
    return f"topic:tool-lookup-{next(NUMBERS)}" if kind == "topic" else f"file:{tmp_path / 'tables.json'}"


class Tables:
    """The tool for one topic and one location."""

    def __init__(self, tool: Tool, topic: str, location: str) -> None:
        self._tool = tool
        self.topic = topic
        self.location = location

    def __call__(self, action: str, *more: str) -> ToolResult:
        places = ("--topic", self.topic, "--lookup-table", self.location)
        return self._tool("kafka-lookup-table", f"--{action}", *places, *more)

    def objects(self, action: str, *more: str) -> list[dict[str, Any]]:
        """What it prints as JSON, a line for each partition; it has succeeded."""
        response = self(action, *more, "--json")
        assert response.status == 0, response.err
        return [json.loads(line) for line in response.lines]


def make(on_broker: Tool, action: str, topic: str, partitions: int) -> None:
    """Create or alter a topic, and wait until the broker's metadata have it."""
    assert on_broker("kafka-topics", action, "--topic", topic, "--partitions", str(partitions)).status == 0

    def known() -> list[int]:
        described = on_broker("kafka-topics", "--describe", "--topic", topic, "--json")
        return [json.loads(line)["partitionCount"] for line in described.lines] if not described.status else []

    eventually(known, [partitions])


@pytest.fixture
def tables(on_broker: Tool, name: str, location: str) -> Tables:
    make(on_broker, "--create", name, 4)
    return Tables(on_broker, name, location)


def write(broker: AnyBroker, tables: Tables, keys: list[bytes | None]) -> None:
    with Cluster(config_of(broker.bootstrap_servers)) as cluster:
        found = tables_for(cluster, TableLocation.parse(tables.location), [tables.topic])
        with Producer(cluster, partitioner=found) as producer:
            columns = {"key": pa.array(keys, pa.binary()), "value": pa.array([b"v"] * len(keys), pa.binary())}
            producer.send(tables.topic, pa.RecordBatch.from_pydict(columns))


@pytest.mark.feature("sink.lookup")
def test_about_two_sixths_of_the_keys_move_to_two_partitions_added_to_four(
    on_broker: Tool, any_broker: AnyBroker, tables: Tables
) -> None:
    """The experiment of a user of MySQL Cluster, with the users 0 to 99."""
    assert tables("create").status == 0
    users: list[bytes | None] = [b"%d" % number for number in range(100)]
    write(any_broker, tables, users)
    before = tables.objects("verify")
    assert [(each["stay"], each["movedTo"]) for each in before] == [(each["records"], {}) for each in before]
    assert sum(each["records"] for each in before) == 100
    make(on_broker, "--alter", tables.topic, 6)
    write(any_broker, tables, users)
    doubled = tables.objects("verify")
    assert [each["stay"] for each in doubled] == [2 * each["records"] for each in before] + [0, 0]
    buckets = tables.objects("reorganize")
    assert [(each["version"], each["buckets"], each["bucketsMovedTo"]) for each in buckets] == [
        *[(2, 640, {"4": 160, "5": 160})] * 4,
        *[(2, 640, {})] * 2,
    ]
    after = tables.objects("verify")
    moves: Counter[str] = Counter()
    for each in after[:4]:
        moves.update(each["movedTo"])
        moved = sum(each["movedTo"].values())
        assert each["stay"] + moved == each["records"]
        assert 0.15 < moved / each["records"] < 0.5, "about 2/6"
    assert set(moves) == {"4", "5"}
    assert [(each["records"], each["movedTo"]) for each in after[4:]] == [(0, {}), (0, {})]
    write(any_broker, tables, users)
    new = tables.objects("verify")[4:]
    assert [(each["stay"], each["movedTo"]) for each in new] == [(moves[each] // 2, {}) for each in ("4", "5")]


def test_create_describe_and_delete(tables: Tables) -> None:
    created = tables("create", "--buckets", "10")
    assert created.lines[0] == "TOPIC           VERSION PARTITION BUCKETS MOVED HERE MOVED TO PARTITION:BUCKETS"
    assert [line.split() for line in created.lines[1:]] == [
        [tables.topic, "1", str(partition), buckets, "0", "-"] for partition, buckets in enumerate("3322")
    ]
    assert tables("describe").lines == created.lines
    again = tables("create")
    assert (again.status, again.out) == (1, "")
    assert f"topic {tables.topic} has a table in {tables.location}, of 4 partitions; --reorganize" in again.err
    assert tables("delete").out == f"Deleted the table of topic {tables.topic}.\n"
    for action in ("describe", "delete", "reorganize", "verify"):
        missing = tables(action)
        assert missing.status == 1
        advice = "nothing was deleted" if action == "delete" else "--create creates it"
        assert f"topic {tables.topic} has no table in {tables.location}; {advice}" in missing.err
    assert tables.objects("create")[0]["buckets"] == 960


def test_a_dry_run_prints_the_reorganization_and_changes_nothing(on_broker: Tool, tables: Tables) -> None:
    tables("create")
    same = tables("reorganize")
    assert (same.status, "has 4 partitions, as its table; no bucket moves" in same.err) == (0, True)
    make(on_broker, "--alter", tables.topic, 5)
    wider = tables("describe")
    assert "has 5 partitions, and its table 4: keys go to the added partitions after --reorganize" in wider.err
    planned = tables.objects("reorganize", "--dry-run")
    assert {each["version"] for each in tables.objects("describe")} == {1}
    assert [each["bucketsMovedTo"] for each in planned] == [{"4": 192}] * 4 + [{}]
    assert planned[4]["bucketsMovedHere"] == 768
    assert tables.objects("reorganize") == planned
    assert tables("reorganize").lines == tables("describe").lines


def test_verify_fails_for_keys_of_partitions_that_existed_before(on_broker: Tool, tables: Tables) -> None:
    tables("create")
    on_broker(
        "kafka-console-producer",
        "--topic",
        tables.topic,
        "--property",
        "parse.key=true",
        stdin=b"".join(b"%d\tv\n" % number for number in range(100)),
    )
    found = tables("verify")
    assert found.status == 0, "hash modulo 4 and the first table are the same if 4 divides the number of buckets"
    tables("delete")
    tables("create", "--buckets", "7")
    found = tables("verify")
    assert found.status == 1
    assert "with keys that no reorganization has moved, in partition->partition by the table: " in found.err


def test_verify_fails_for_a_topic_with_fewer_partitions_than_its_table(on_broker: Tool, tables: Tables) -> None:
    tables("create")
    assert on_broker("kafka-topics", "--delete", "--topic", tables.topic).status == 0
    make(on_broker, "--create", tables.topic, 2)
    for action, status in (("verify", 1), ("describe", 0)):
        found = tables(action)
        assert found.status == status
        assert (
            f"topic {tables.topic} has 2 partitions, fewer than its table, 4: a write with the table fails" in found.err
        )
        assert "--delete and --create its table" in found.err


def test_records_without_keys_are_counted(any_broker: AnyBroker, tables: Tables) -> None:
    tables("create")
    write(any_broker, tables, [None, None, b"a"])
    found = tables.objects("verify")
    assert [sum(each[name] for each in found) for name in ("records", "withoutKey", "stay")] == [3, 2, 1]


def test_a_topic_with_fewer_partitions_than_its_table(on_broker: Tool, tables: Tables, name: str) -> None:
    tables("create")
    on_broker("kafka-topics", "--delete", "--topic", name)
    eventually(lambda: f"topic {name} does not exist; --delete deletes its table" in tables("describe").err, True)
    make(on_broker, "--create", name, 2)
    described = tables("describe")
    assert f"topic {name} has 2 partitions, fewer than its table, 4: a write with the table fails" in described.err
    refused = tables("reorganize")
    assert refused.status == 1
    assert "its table has 4 partitions, and cannot be reorganized to 2" in refused.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--create", "--topic", "t"), "--lookup-table is required: topic:NAME or file:/PATH"),
        (("--create", "--lookup-table", "file:/t"), "--topic is required"),
        (("--create", "--topic", "t", "--lookup-table", "t"), "--lookup-table: 't' must be topic:NAME or file:/PATH"),
        (("--verify", "--topic", "t", "--lookup-table", "file:/t", "--buckets", "3"), "--buckets is an option of"),
        (("--verify", "--topic", "t", "--lookup-table", "file:/t", "--dry-run"), "--dry-run is an option of"),
    ],
)
def test_bad_options(on_broker: Tool, arguments: tuple[str, ...], message: str) -> None:
    response = on_broker("kafka-lookup-table", *arguments)
    assert (response.status, response.out) == (2, "")
    assert message in response.err


def test_a_topic_that_does_not_exist(on_broker: Tool, location: str) -> None:
    response = on_broker("kafka-lookup-table", "--create", "--topic", "not-there", "--lookup-table", location)
    assert (response.status, "not-there" in response.err) == (1, True)


def test_a_topic_of_tables_that_does_not_exist(on_broker: Tool) -> None:
    response = on_broker("kafka-lookup-table", "--describe", "--lookup-table", "topic:not-there")
    assert (response.status, response.out) == (1, "")
    assert "topic:not-there: the topic does not exist; pykafka lookup-table --create creates it" in response.err
