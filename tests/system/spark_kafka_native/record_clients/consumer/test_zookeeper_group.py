"""Members of groups in ZooKeeper: their znodes, conflicts, and lost sessions."""

import gc
import json
import re
import socket
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from broker_embedded.testing import EmbeddedBroker, EmbeddedZooKeeper
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native.clients import (
    Blacklist,
    ConsumerConnector,
    KafkaError,
    NoBrokersFound,
    RebalanceFailed,
    Whitelist,
)
from tests.support.clients.consuming import SHORT_PAUSES, Consuming, numbers, wait_until_shared
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
from tests.support.records.record_batches import batch_of
from tests.support.scripted.cluster import ScriptedCluster
from tests.support.scripts import free_port
from tests.support.servers.kafka_on_zookeeper import zookeeper_client
from tests.support.waiting import eventually

broker = broker_in_zookeeper()
zookeeper = client_of_zookeeper()
options = options_of_members()


# --- znodes


def test_a_member_registers_as_kafkas_consumers_do(
    broker: EmbeddedBroker, zookeeper: KazooClient, options: dict[str, object]
) -> None:
    with Consuming(options, {"t": 2}) as member:
        wait_until_shared([member], ALL)
        (consumer_id,) = children(zookeeper, "/consumers/g/ids")
        assert re.fullmatch(rf"g_{re.escape(socket.gethostname())}-\d{{13}}-[0-9a-f]{{8}}", consumer_id)
        data, stat = zookeeper.get(f"/consumers/g/ids/{consumer_id}")
        registration = json.loads(data)
        assert registration.pop("timestamp").isdecimal()
        assert registration == {"version": 1, "subscription": {"t": 2}, "pattern": "static"}
        assert stat.ephemeralOwner
        owners = {"0": f"{consumer_id}-0", "1": f"{consumer_id}-0", "2": f"{consumer_id}-1", "3": f"{consumer_id}-1"}
        assert values(zookeeper, "/consumers/g/owners/t") == owners
        assert [sorted(part.partition for part in stream.partitions) for stream in member.streams] == [[0, 1], [2, 3]]
        write(broker, range(8))
        eventually(lambda: values(zookeeper, "/consumers/g/offsets/t"), dict.fromkeys("0123", "2"))
    assert children(zookeeper, "/consumers/g/ids") == children(zookeeper, "/consumers/g/owners/t") == []


@pytest.mark.parametrize(
    ("topic_filter", "pattern", "expression"),
    [(Whitelist("t, u"), "white_list", "t|u"), (Blacklist("u"), "black_list", "u")],
    ids=["white", "black"],
)
def test_a_filter_is_registered_with_its_expression(
    zookeeper: KazooClient,
    options: dict[str, object],
    topic_filter: Whitelist | Blacklist,
    pattern: str,
    expression: str,
) -> None:
    with Consuming(options | {"consumer.id": "one"}, topic_filter, streams=3) as member:
        wait_until_shared([member], ALL)
        registration = json.loads(zookeeper.get("/consumers/g/ids/g_one")[0])
        assert (registration["pattern"], registration["subscription"]) == (pattern, {expression: 3})


# --- other members


def test_partitions_that_stay_are_read_through_a_rebalance(
    broker: EmbeddedBroker, zookeeper: KazooClient, options: dict[str, object]
) -> None:
    with Consuming(options | {"consumer.id": "a"}, {"t": 1}) as first:
        wait_until_shared([first], ALL)
        before = zookeeper.exists("/consumers/g/owners/t/0").czxid
        with Consuming(options | {"consumer.id": "b"}, {"t": 1}) as second:
            wait_until_shared([first, second], ALL)
            assert first.partitions == ALL[:2]
            assert zookeeper.exists("/consumers/g/owners/t/0").czxid == before
            write(broker, range(8))
            eventually(lambda: numbers(first, second), list(range(8)))


def test_a_partition_that_another_consumer_keeps_fails_the_first_rebalance(
    zookeeper: KazooClient, options: dict[str, object]
) -> None:
    zookeeper.create("/consumers/g/owners/t/1", b"g_other-0", makepath=True)
    with ConsumerConnector(options | {"rebalance.max.retries": 3, "consumer.id": "a"}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        expected = (
            r"group g: g_a could not rebalance in 3 attempts \(rebalance.max.retries\): /consumers/g/owners/t/1: "
            "g_other-0 has not given it up yet"
        )
        with pytest.raises(RebalanceFailed, match=expected):
            next(stream)
    assert children(zookeeper, "/consumers/g/owners/t") == ["1"]
    assert children(zookeeper, "/consumers/g/ids") == []


def test_a_partition_is_claimed_as_soon_as_its_owner_has_given_it_up(
    zookeeper: KazooClient, options: dict[str, object]
) -> None:
    zookeeper.create("/consumers/g/owners/t/1", b"g_other-0", makepath=True)
    with Consuming(options | {"rebalance.backoff.ms": 2**31 - 1}, {"t": 1}) as member:
        eventually(lambda: len(children(zookeeper, "/consumers/g/ids")), 1)
        zookeeper.delete("/consumers/g/owners/t/1")
        wait_until_shared([member], ALL)


def test_a_consumer_id_in_use_is_an_error(zookeeper: KazooClient, options: dict[str, object]) -> None:
    zookeeper.create("/consumers/g/ids/g_one", b"", ephemeral=True, makepath=True)
    with ConsumerConnector(options | {"consumer.id": "one", "rebalance.max.retries": 2}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(RebalanceFailed, match="/consumers/g/ids/g_one: another session, perhaps an earlier one of"):
            next(stream)
    assert children(zookeeper, "/consumers/g/ids") == ["g_one"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"version":1,"subscription":{"t":"many"},"pattern":"static"}',
        b'{"version":1,"subscription":{"t":1},"pattern":"none"}',
        b'{"version":1,"subscription":{},"pattern":"white_list"}',
        b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}',
    ],
)
def test_a_registration_that_cannot_be_read_is_ignored(
    zookeeper: KazooClient, options: dict[str, object], data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper.create("/consumers/g/ids/g_a", data, ephemeral=True, makepath=True)
    with Consuming(options, {"t": 1}) as member:
        wait_until_shared([member], ALL)
    assert caplog.text.count("group g: consumer g_a is ignored, as if it had no topics: ") == 1


def test_a_consumer_whose_expression_re2_does_not_support_is_named_when_its_partitions_cannot_be_claimed(
    zookeeper: KazooClient, options: dict[str, object]
) -> None:
    data = b'{"version":1,"subscription":{"(?!u).*":1},"pattern":"white_list"}'
    zookeeper.create("/consumers/g/ids/g_java", data, ephemeral=True, makepath=True)
    zookeeper.create("/consumers/g/owners/t/0", b"g_java-0", ephemeral=True, makepath=True)
    with ConsumerConnector(options | {"rebalance.max.retries": 2}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        text = "g_java-0 has not given it up yet; these consumers of the group are ignored: g_java"
        with pytest.raises(RebalanceFailed, match=text):
            next(stream)


def test_a_chroot_without_brokers_is_logged(
    zookeeper: KazooClient, options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper.create("/empty/consumers", b"", makepath=True)
    options["zookeeper.connect"] = f"{options['zookeeper.connect']}/empty"
    with Consuming(options, {"t": 1}) as member:
        eventually(lambda: "no broker is registered below /brokers/ids" in caplog.text, expected=True)
        assert member.errors == []
    assert f"group g: zookeeper.connect={options['zookeeper.connect']}: no broker is registered" in caplog.text


def test_topics_that_do_not_exist_yet_are_logged_once_and_read_after_their_creation(
    broker: EmbeddedBroker, options: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with Consuming(options, {"t": 1, "later": 1, "never": 1}) as member:
        wait_until_shared([member], ALL)
        broker.create_topic("later", 1)
        wait_until_shared([member], [*ALL, ("later", 0)])
        assert member.errors == []
    (line,) = [text for text in caplog.messages if "these topics do not exist yet" in text]
    assert line == "group g: these topics do not exist yet: later, never"


def test_a_partition_without_a_leader_fails_no_rebalance(zookeeper: KazooClient, zookeeper_connect: str) -> None:
    with ScriptedCluster(topics={"t": 2}) as brokers:
        broker = {"version": 4, "endpoints": [f"PLAINTEXT://{brokers.bootstrap_servers}"]}
        zookeeper.create("/brokers/ids/1", json.dumps(broker).encode(), makepath=True)
        topic = {"version": 1, "partitions": {"0": [1], "1": [1]}}
        zookeeper.create("/brokers/topics/t", json.dumps(topic).encode(), makepath=True)
        for number in range(2):
            brokers.partition("t", number).append(batch_of([b"%d" % number]))
        brokers.partition("t", 1).leader = -1
        options = {
            "zookeeper.connect": zookeeper_connect,
            "group.id": "g",
            "auto.offset.reset": "smallest",
            "rebalance.max.retries": 1,
            **SHORT_PAUSES,
        }
        with Consuming(options, {"t": 1}) as member:
            eventually(lambda: numbers(member), [0])
            assert children(zookeeper, "/consumers/g/owners/t") == ["0", "1"]
            brokers.partition("t", 1).leader = 1
            eventually(lambda: numbers(member), [0, 1])
            assert member.errors == []


@pytest.mark.parametrize(
    "registration",
    [
        {"version": 1, "subscription": {"t": 3}, "pattern": "static"},
        {"version": 1, "subscription": {".*": 2}, "pattern": "white_list"},
    ],
    ids=["streams", "pattern"],
)
def test_a_member_keeps_its_subscription_if_another_client_changes_its_registration(
    broker: EmbeddedBroker, zookeeper: KazooClient, options: dict[str, object], registration: dict[str, object]
) -> None:
    with Consuming(options | {"consumer.id": "a"}, {"t": 1}) as member:
        wait_until_shared([member], ALL)
        broker.create_topic("other", 1)
        eventually(lambda: zookeeper.exists("/brokers/topics/other") is not None, expected=True)
        zookeeper.set("/consumers/g/ids/g_a", json.dumps(registration).encode())
        write(broker, range(8))
        with ConsumerConnector(options | {"consumer.id": "b", "rebalance.max.retries": 1000}) as second:
            second.create_message_streams({"t": 1})
            eventually(lambda: len(member.partitions) < PARTITIONS, expected=True)
        eventually(lambda: member.partitions, ALL)
        eventually(lambda: set(numbers(member)), set(range(8)))
        assert member.errors == []


# --- sessions


def test_a_member_registers_again_after_its_session_has_expired(
    broker: EmbeddedBroker, zookeeper: KazooClient, zookeeper_connect: str, options: dict[str, object]
) -> None:
    write(broker, range(8))
    with Consuming(options | {"consumer.id": "a"}, {"t": 1}) as member:
        eventually(lambda: numbers(member), list(range(8)))
        eventually(lambda: values(zookeeper, "/consumers/g/offsets/t"), dict.fromkeys("0123", "2"))
        before = zookeeper.exists("/consumers/g/ids/g_a").ephemeralOwner
        expire(zookeeper_connect, before)
        eventually(lambda: (stat := zookeeper.exists("/consumers/g/ids/g_a")) and stat.ephemeralOwner != before, True)
        wait_until_shared([member], ALL)
        write(broker, range(8, 16))
        eventually(lambda: numbers(member), list(range(16)))
        assert member.errors == []


def expire(connect: str, session_id: int) -> None:
    """End a session of a client in this process from outside: another connection continues it, and closes it."""
    clients = [each for each in gc.get_objects() if type(each) is KazooClient and each.client_id is not None]
    (expired,) = [each for each in clients if each.client_id[0] == session_id]
    other = KazooClient(connect, client_id=expired.client_id)
    other.start()
    other.stop()
    other.close()


@pytest.fixture
def away() -> Iterator[tuple[EmbeddedZooKeeper, EmbeddedBroker, dict[str, object]]]:
    """A ZooKeeper that can be killed, its broker, and the options of a member."""
    with EmbeddedZooKeeper() as server, EmbeddedBroker(settings={"zookeeper.connect": server.connect_string}) as broker:
        broker.create_topic("t", PARTITIONS)
        yield (
            server,
            broker,
            {
                "zookeeper.connect": server.connect_string,
                "zookeeper.session.timeout.ms": 30_000,
                "group.id": "g",
                "auto.offset.reset": "smallest",
                "rebalance.backoff.ms": 100,
                "fetch.max.wait.ms": 50,
                "default.api.timeout.ms": 1000,
                "auto.commit.enable": "false",
            },
        )


def wait_until_noticed(consumer: ConsumerConnector) -> None:
    """Wait until a member knows that ZooKeeper is away: commits fail then."""

    def failure() -> object:
        try:
            consumer.commit_offsets()
        except KafkaError as error:
            return error.code
        return None

    eventually(failure, ErrorCode.NETWORK_EXCEPTION)


def test_records_are_read_while_zookeeper_is_away_for_a_short_time(
    away: tuple[EmbeddedZooKeeper, EmbeddedBroker, dict[str, object]], caplog: pytest.LogCaptureFixture
) -> None:
    server, broker, options = away
    with Consuming(options, {"t": 1}) as member:
        wait_until_shared([member], ALL)
        write(broker, range(4))
        eventually(lambda: numbers(member), list(range(4)))
        server.kill()
        write(broker, range(4, 8))
        eventually(lambda: numbers(member), list(range(8)))
        wait_until_noticed(member.consumer)
        for last in (12, 16):
            write(broker, range(last - 4, last))
            eventually(lambda: numbers(member), list(range(last)))
        assert member.partitions == ALL
        assert "the session of" not in caplog.text
        server.start()


@pytest.mark.parametrize("dual", ["true", "false"])
def test_a_member_commits_no_offsets_at_the_coordinator_while_zookeeper_is_away(
    away: tuple[EmbeddedZooKeeper, EmbeddedBroker, dict[str, object]], dual: str
) -> None:
    """Its session may have ended, and another member may have committed later offsets."""
    server, broker, options = away
    options |= {"offsets.storage": "kafka", "dual.commit.enabled": dual}
    with Consuming(options, {"t": 1}) as member:
        wait_until_shared([member], ALL)
        write(broker, range(8))
        eventually(lambda: numbers(member), list(range(8)))
        member.consumer.commit_offsets()
        before = offsets_at_coordinator(broker)
        server.kill()
        write(broker, range(8, 16))
        eventually(lambda: numbers(member), list(range(16)))
        with pytest.raises(KafkaError) as raised:
            member.consumer.commit_offsets()
        assert raised.value.code is ErrorCode.NETWORK_EXCEPTION
        assert offsets_at_coordinator(broker) == before
        server.start()


def test_no_partition_is_read_after_the_session_until_there_is_another(
    away: tuple[EmbeddedZooKeeper, EmbeddedBroker, dict[str, object]],
) -> None:
    server, broker, options = away
    with Consuming(options | {"zookeeper.session.timeout.ms": 2000}, {"t": 1}) as member:
        wait_until_shared([member], ALL)
        server.kill()
        eventually(lambda: member.partitions, [], within_s=60)
        write(broker, range(8))
        assert numbers(member) == []
        server.start()
        wait_until_shared([member], ALL)
        eventually(lambda: numbers(member), list(range(8)), within_s=60)
        assert member.errors == []


def test_a_zookeeper_that_cannot_be_reached_is_an_error_of_the_streams(options: dict[str, object]) -> None:
    connect = f"127.0.0.1:{free_port()}"
    with ConsumerConnector(
        options | {"zookeeper.connect": connect, "zookeeper.connection.timeout.ms": 300}
    ) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(NoBrokersFound, match=f"group g: no ZooKeeper server has opened a session .*{connect}"):
            next(stream)


def test_a_chroot_that_does_not_exist_is_an_error_and_is_not_created(
    zookeeper_server: EmbeddedZooKeeper, zookeeper: KazooClient, options: dict[str, object]
) -> None:
    connect = f"{zookeeper_server.connect_string}/missing"
    with ConsumerConnector(options | {"zookeeper.connect": connect}) as consumer:
        (stream,) = consumer.create_message_streams({"t": 1})["t"]
        with pytest.raises(NoBrokersFound, match=r"the chroot /missing of zookeeper\.connect does not exist"):
            next(stream)
    with zookeeper_client(zookeeper_server.connect_string) as root:
        assert root.exists("/missing") is None


def test_shutdown_does_not_wait_for_a_zookeeper_that_is_away(options: dict[str, object]) -> None:
    connect = f"127.0.0.1:{free_port()}"
    consumer = ConsumerConnector(options | {"zookeeper.connect": connect, "zookeeper.connection.timeout.ms": 10**9})
    (stream,) = consumer.create_message_streams({"t": 1})["t"]
    closing = threading.Thread(target=consumer.shutdown, daemon=True)
    closing.start()
    closing.join(60)
    assert not closing.is_alive()
    assert list(stream) == []
