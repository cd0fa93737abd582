"""Where members of groups in ZooKeeper commit offsets: in ZooKeeper, at the coordinator, or in both."""

import json
import signal
import sys

import pytest
from kazoo.client import KazooClient

from broker_embedded.testing import EmbeddedBroker
from spark_kafka_native.clients import ConsumerConnector, KafkaError
from tests.support.clients.consuming import Consuming, numbers, wait_until_shared
from tests.support.clients.zookeeper_member import (
    ALL,
    PARTITIONS,
    broker_in_zookeeper,
    children,
    client_of_zookeeper,
    offsets_at_coordinator,
    options_of_members,
    values,
    write,
)
from tests.support.scripts import started
from tests.support.waiting import eventually

broker = broker_in_zookeeper()
zookeeper = client_of_zookeeper()
options = options_of_members()


def test_offsets_migrate_from_zookeeper_to_kafka_and_back(
    broker: EmbeddedBroker, zookeeper: KazooClient, options: dict[str, object]
) -> None:
    written = 0

    def consume(**steps: object) -> tuple[dict[str, str], dict[str, str]]:
        """Eight more records, in one life of a consumer -> the offsets in ZooKeeper and at the coordinator."""
        nonlocal written
        write(broker, range(written, written + 8))
        with Consuming(options | {name.replace("_", "."): value for name, value in steps.items()}, {"t": 1}) as member:
            eventually(lambda: numbers(member), list(range(written, written + 8)))
        written += 8
        return values(zookeeper, "/consumers/g/offsets/t"), offsets_at_coordinator(broker)

    def each(offset: int) -> dict[str, str]:
        return dict.fromkeys("0123", str(offset))

    assert consume() == (each(2), {})
    assert consume(offsets_storage="kafka", dual_commit_enabled="true") == (each(4), each(4))
    assert consume(offsets_storage="kafka", dual_commit_enabled="false") == (each(4), each(6))
    # Back: both again, of which the greater is used, and then ZooKeeper alone.
    assert consume(offsets_storage="kafka") == (each(8), each(8))
    assert consume(offsets_storage="zookeeper") == (each(10), each(8))


def test_an_idle_partition_migrates_too(
    broker: EmbeddedBroker, zookeeper: KazooClient, options: dict[str, object]
) -> None:
    for number in range(PARTITIONS):
        zookeeper.create(f"/consumers/g/offsets/t/{number}", b"0", makepath=True)
    with Consuming(options | {"offsets.storage": "kafka"}, {"t": 1}) as member:
        wait_until_shared([member], ALL)
        eventually(lambda: offsets_at_coordinator(broker), dict.fromkeys("0123", "0"))


PROCESS_TWO_AND_COMMIT = """
import json, sys, time
from spark_kafka_native.clients import CommitFailed, ConsumerConnector, KafkaError
consumer = ConsumerConnector(json.loads(sys.argv[1]))
(stream,) = consumer.create_message_streams({"t": 1})["t"]
next(stream)
next(stream)
print("second record", flush=True)
resumed = 0
while True:
    now = time.monotonic()
    time.sleep(0.01)
    resumed = 100 if time.monotonic() - now > 1 else resumed - 1
    if resumed > 0:
        try:
            consumer.commit_offsets()
        except (CommitFailed, KafkaError):
            pass
"""


@pytest.mark.parametrize("dual", ["true", "false"])
def test_a_member_that_was_stopped_for_longer_than_its_session_takes_no_offset_back(
    broker: EmbeddedBroker, zookeeper: KazooClient, options: dict[str, object], dual: str
) -> None:
    write(broker, range(40))
    options |= {"offsets.storage": "kafka", "dual.commit.enabled": dual}
    due_when_resumed = {"auto.commit.interval.ms": 1500, "consumer.id": "stopped"}
    command = [sys.executable, "-c", PROCESS_TWO_AND_COMMIT, json.dumps(options | due_when_resumed)]
    with started(command, until="second record") as process:
        process.send_signal(signal.SIGSTOP)
        with Consuming(options | {"rebalance.max.retries": 1000}, {"t": 1}) as member:
            eventually(lambda: member.partitions, ALL)
            every = dict.fromkeys("0123", "10")
            eventually(lambda: offsets_at_coordinator(broker), every)
            before = zookeeper.exists("/consumers/g/ids").cversion
            process.send_signal(signal.SIGCONT)
            eventually(lambda: zookeeper.exists("/consumers/g/ids").cversion > before, expected=True)
            eventually(lambda: len(member.partitions), 2)
            assert offsets_at_coordinator(broker) == every
            process.kill()


@pytest.mark.parametrize("data", [b"", b"-1"])
def test_an_empty_offset_and_minus_one_are_no_offset(
    broker: EmbeddedBroker, zookeeper: KazooClient, options: dict[str, object], data: bytes
) -> None:
    zookeeper.create("/consumers/g/offsets/t/2", data, makepath=True)
    write(broker, range(8))
    with Consuming(options, {"t": 1}) as member:
        eventually(lambda: numbers(member), list(range(8)))
        eventually(lambda: values(zookeeper, "/consumers/g/offsets/t"), dict.fromkeys("0123", "2"))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"two", "b'two' is not an offset"),
        (b"5\n", r"b'5\\n' is not an offset"),
        (b"-2", "offset -2 is negative"),
    ],
)
def test_what_is_no_offset_is_an_error_of_the_streams(
    zookeeper: KazooClient, options: dict[str, object], data: bytes, problem: str
) -> None:
    zookeeper.create("/consumers/g/offsets/t/2", data, makepath=True)
    with ConsumerConnector(options) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(KafkaError, match=f"/consumers/g/offsets/t/2: {problem}"):
            next(stream)
    assert children(zookeeper, "/consumers/g/owners/t") == []


def test_commits_by_hand_go_to_zookeeper(
    broker: EmbeddedBroker, zookeeper: KazooClient, options: dict[str, object]
) -> None:
    write(broker, range(1))
    with ConsumerConnector(options | {"auto.commit.enable": "false"}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        next(stream)
        consumer.commit_offsets()
        assert values(zookeeper, "/consumers/g/offsets/t")["0"] == "1"
