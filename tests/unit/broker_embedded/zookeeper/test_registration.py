"""A broker registers once, waits for its own earlier session, and refuses the place of another broker."""

import asyncio
import json

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.releases import RELEASE_NAMES
from broker_embedded._zookeeper.registration import Registrar, claim_cluster_id, create_paths, registered_broker
from broker_embedded._zookeeper.znodes import Watches
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from tests.support.waiting import eventually_async
from tests.support.zookeeper.znodes_in_memory import ZnodesInMemory, ZooKeeperInMemory

CONNECT = ConnectString.parse("zookeeper.test/kafka")


def config(**settings: object) -> BrokerConfig:
    return BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "zookeeper.connect": str(CONNECT),
            **{key.replace("_", "."): value for key, value in settings.items()},
        }
    )


async def register(
    zookeeper: ZooKeeperInMemory, port: int = 9092, *, session: ZnodesInMemory | None = None, **settings: object
) -> ZnodesInMemory:
    """Register a broker as a start does; its session."""
    nodes = session or zookeeper.session()
    registrar = Registrar(CONNECT, registered_broker(config(**settings), {"PLAINTEXT": port}), config(**settings))
    await create_paths(nodes, config(**settings).release)
    await registrar.check(nodes)
    await registrar.register(Watches(nodes), 77, lambda: None)
    return nodes


@pytest.mark.parametrize(
    ("release", "broker_version", "controller_version"),
    [("0.8.2", 1, 1), ("0.9", 2, 1), ("0.10.1", 3, 1), ("0.10.2", 4, 1), ("2.7", 5, 1), ("3.9", 5, 2), ("4.3", 5, 2)],
)
async def test_the_formats_are_those_of_the_release(release: str, broker_version: int, controller_version: int) -> None:
    zookeeper = ZooKeeperInMemory()
    nodes = await register(zookeeper, as_version=release)
    broker, controller = zookeeper.nodes["/brokers/ids/1"], zookeeper.nodes["/controller"]
    assert json.loads(broker.data)["version"] == broker_version
    assert json.loads(controller.data)["version"] == controller_version
    assert broker.owner == controller.owner == nodes.session_id
    assert zookeeper.nodes["/controller_epoch"].data == b"1"


@pytest.mark.parametrize("release", RELEASE_NAMES)
async def test_the_fixed_paths_exist(release: str) -> None:
    zookeeper = ZooKeeperInMemory()
    await register(zookeeper, as_version=release)
    assert {"/brokers/topics", "/consumers", "/admin/delete_topics", "/config/changes"} <= zookeeper.nodes.keys()
    assert ("/config/users" in zookeeper.nodes) == config(as_version=release).release.since("1.1")


async def test_a_second_registration_in_one_session_changes_nothing() -> None:
    zookeeper = ZooKeeperInMemory()
    nodes = await register(zookeeper)
    before = dict(zookeeper.nodes)
    await register(zookeeper, session=nodes)
    assert zookeeper.nodes == before


async def test_a_new_session_is_a_new_epoch_of_the_controller() -> None:
    zookeeper = ZooKeeperInMemory()
    zookeeper.end(await register(zookeeper))
    await register(zookeeper)
    assert zookeeper.nodes["/controller_epoch"].data == b"2"


async def test_a_restarted_broker_waits_for_the_end_of_its_earlier_session() -> None:
    zookeeper = ZooKeeperInMemory()
    earlier = await register(zookeeper)
    starting = asyncio.create_task(register(zookeeper))
    await eventually_async(lambda: zookeeper.requests[-1], "get /brokers/ids/1")
    assert not starting.done()
    zookeeper.end(earlier)
    nodes = await starting
    assert zookeeper.nodes["/brokers/ids/1"].owner == zookeeper.nodes["/controller"].owner == nodes.session_id


async def test_an_id_in_use_is_an_error() -> None:
    zookeeper = ZooKeeperInMemory()
    await register(zookeeper, 9092)
    before = dict(zookeeper.nodes)
    with pytest.raises(ZooKeeperError) as raised:
        await register(zookeeper, 9093)
    assert str(raised.value) == (
        "broker 1 is registered in zookeeper.test:2181/kafka already, with the address 127.0.0.1:9092; set another "
        "node.id, or wait until the session of that broker has ended"
    )
    assert zookeeper.nodes == before


async def test_another_broker_in_the_chroot_is_an_error() -> None:
    zookeeper = ZooKeeperInMemory()
    await register(zookeeper, node_id=2)
    with pytest.raises(ZooKeeperError, match=r"broker 2 is registered in .*, and the bundled broker"):
        await register(zookeeper, node_id=1)


async def test_another_controller_is_an_error() -> None:
    zookeeper = ZooKeeperInMemory()
    await zookeeper.session().create("/controller", b'{"version":1,"brokerid":5}', ephemeral=True)
    with pytest.raises(ZooKeeperError, match=r"broker 5 is the controller in .*use another chroot"):
        await register(zookeeper)


@pytest.mark.parametrize(
    ("nodes", "problem"),
    [
        ({"/controller_epoch": "x"}, "/controller_epoch is b'x', not a number"),
        ({"/controller": "x"}, "/controller has no brokerid in a JSON object"),
        ({"/brokers/ids/1": "x"}, "/brokers/ids/1 is not a broker's registration"),
    ],
)
async def test_damaged_nodes_are_errors_that_name_them(nodes: dict[str, str], problem: str) -> None:
    zookeeper = ZooKeeperInMemory()
    zookeeper.write(nodes)
    with pytest.raises(ZooKeeperError) as raised:
        await register(zookeeper)
    assert problem in str(raised.value)


async def test_changes_of_the_broker_s_own_nodes_are_noticed() -> None:
    zookeeper = ZooKeeperInMemory()
    nodes = zookeeper.session()
    registrar = Registrar(CONNECT, registered_broker(config(), {"PLAINTEXT": 1}), config())
    await create_paths(nodes, config().release)
    changes: list[str] = []
    await registrar.register(Watches(nodes), 77, lambda: changes.append("changed"))
    assert changes == []
    await nodes.delete("/controller")
    await nodes.delete("/brokers/ids/1")
    assert changes == ["changed", "changed"]


# --- the cluster's id ------------------------------------------------------------------------------------------------


async def test_the_first_broker_sets_the_cluster_id() -> None:
    zookeeper = ZooKeeperInMemory()
    first = await claim_cluster_id(zookeeper.session(), CONNECT, None)
    assert json.loads(zookeeper.nodes["/cluster/id"].data) == {"version": "1", "id": first}
    assert await claim_cluster_id(zookeeper.session(), CONNECT, None) == first
    assert await claim_cluster_id(zookeeper.session(), CONNECT, first) == first


async def test_the_cluster_id_of_a_data_directory_is_set() -> None:
    zookeeper = ZooKeeperInMemory()
    assert await claim_cluster_id(zookeeper.session(), CONNECT, "own") == "own"


async def test_another_cluster_id_is_an_error() -> None:
    zookeeper = ZooKeeperInMemory()
    await claim_cluster_id(zookeeper.session(), CONNECT, "theirs")
    with pytest.raises(ZooKeeperError) as raised:
        await claim_cluster_id(zookeeper.session(), CONNECT, "ours")
    assert str(raised.value) == (
        "zookeeper.test:2181/kafka has the cluster id theirs, but this broker belongs to cluster ours; use another "
        "chroot, or another data directory"
    )


# --- what is registered ----------------------------------------------------------------------------------------------


def test_advertised_addresses_are_registered() -> None:
    wanted = BrokerConfig.parse(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,CLIENTS://:0",
            "advertised.listeners": "CLIENTS://kafka.example.org:9999",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
            "broker.rack": "r1",
            "broker.id": 5,
        }
    )
    found = registered_broker(wanted, {"PLAINTEXT": 1111, "CLIENTS": 2222})
    assert [f"{end} {end.protocol}" for end in found.endpoints] == [
        "PLAINTEXT://127.0.0.1:1111 PLAINTEXT",
        "CLIENTS://kafka.example.org:9999 SASL_PLAINTEXT",
    ]
    assert (found.broker_id, found.rack) == (5, "r1")


def test_a_listener_on_every_interface_has_the_name_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "machine.example.org")
    (found,) = registered_broker(BrokerConfig.parse({"listeners": "PLAINTEXT://:0"}), {"PLAINTEXT": 1111}).endpoints
    assert str(found) == "PLAINTEXT://machine.example.org:1111"
