"""Znodes of a real ZooKeeper, and the nodes in memory of the unit tests, behave alike."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from kazoo.client import KazooClient

from broker_embedded._config.zookeeper_settings import ZooKeeperSettings
from broker_embedded._zookeeper.session import ZooKeeperSession
from broker_embedded._zookeeper.znodes import ANY_VERSION, Znode, Znodes, ensure, run_limited
from broker_embedded.testing import EmbeddedZooKeeper
from spark_kafka_native._zookeeper.connect_string import ConnectString
from spark_kafka_native._zookeeper.errors import ZooKeeperError
from tests.support.waiting import eventually_async
from tests.support.zookeeper.znodes_in_memory import ZooKeeperInMemory

SETTINGS = ZooKeeperSettings(zookeeper_session_timeout_ms=4000)


@pytest.fixture(params=["in memory", "real"])
async def nodes(request: pytest.FixtureRequest) -> AsyncIterator[Znodes]:
    if request.param == "in memory":
        yield ZooKeeperInMemory().session()
        return
    connect = ConnectString.parse(request.getfixturevalue("zookeeper_connect"))
    connection = await ZooKeeperSession.open(connect, SETTINGS)
    yield connection
    await connection.close()


async def test_a_created_node_is_read(nodes: Znodes) -> None:
    assert await nodes.get("/a") is None
    assert await nodes.create("/a", b"1")
    assert not await nodes.create("/a", b"2")
    assert await nodes.get("/a") == Znode(data=b"1", owner=0)
    assert await nodes.create("/a/b", b"3", ephemeral=True)
    assert await nodes.get("/a/b") == Znode(data=b"3", owner=nodes.session_id)


async def test_a_znode_without_data_has_none_instead_of_empty_data(zookeeper_connect: str) -> None:
    """Apache Kafka fails to parse empty data, in ``/latest_producer_id_block`` for example."""
    session = await ZooKeeperSession.open(ConnectString.parse(zookeeper_connect), SETTINGS)
    await ensure(session, "/a")
    assert (await asyncio.to_thread(data_of, zookeeper_connect, "/a")) is None
    assert await session.get("/a") == Znode(data=b"", owner=0)
    await session.close()


def data_of(connect: str, path: str) -> bytes | None:
    """The data of a znode as another program's client reads it."""
    client = KazooClient(connect)
    client.start()
    data: bytes | None = client.get(path)[0]
    client.stop()
    client.close()
    return data


async def test_a_node_without_a_parent_is_an_error_that_names_it(nodes: Znodes) -> None:
    for work in (nodes.create("/a/b"), nodes.put("/a/b", b"")):
        with pytest.raises(ZooKeeperError, match="/a/b: the node does not exist"):
            await work


async def test_create_all_creates_all_or_none(nodes: Znodes) -> None:
    assert await nodes.create_all({"/a": b"1", "/a/b": b"", "/a/b/c": b"2"})
    assert (await nodes.get("/a"), await nodes.get("/a/b"), await nodes.get("/a/b/c")) == (
        Znode(data=b"1", owner=0),
        Znode(data=b"", owner=0),
        Znode(data=b"2", owner=0),
    )
    too_large = {"/x": b"x" * 500_000, "/y": b"y" * 500_000}
    for refused in ({"/x": b"", "/a/b": b""}, {"/x": b"", "/y/z": b""}, too_large):
        assert not await nodes.create_all(refused)
    assert await nodes.children("") == ("a",)


async def test_put_creates_and_replaces(nodes: Znodes) -> None:
    for version, data in enumerate((b"1", b"2")):
        await nodes.put("/a", data)
        assert await nodes.get("/a") == Znode(data=data, owner=0, version=version)


async def test_replace_needs_the_present_version(nodes: Znodes) -> None:
    assert not await nodes.replace("/a", b"0", 0)
    await nodes.create("/a", b"1")
    assert await nodes.replace("/a", b"2", 0)
    assert not await nodes.replace("/a", b"3", 0)
    assert await nodes.get("/a") == Znode(data=b"2", owner=0, version=1)


async def test_replace_of_any_version_needs_the_znode_only(nodes: Znodes) -> None:
    assert not await nodes.replace("/a", b"0", ANY_VERSION)
    await nodes.create("/a", b"1")
    for version, data in enumerate((b"2", b"3"), 1):
        assert await nodes.replace("/a", data, ANY_VERSION)
        assert await nodes.get("/a") == Znode(data=data, owner=0, version=version)


async def test_ensure_creates_the_parents(nodes: Znodes) -> None:
    await ensure(nodes, "/a/b/c")
    await ensure(nodes, "/a/b/d")
    assert await nodes.children("/a/b") == ("c", "d")
    assert await nodes.children("/a/b/c") == await nodes.children("/missing") == ()


async def test_delete_deletes_everything_below(nodes: Znodes) -> None:
    for path in ("/a/b/c", "/a/b/d", "/a/e", "/other"):
        await ensure(nodes, path)
    await nodes.delete("/a")
    await nodes.delete("/a")
    assert await nodes.get("/a") is None
    assert await nodes.get("/other") is not None


async def test_many_requests_at_the_same_time(nodes: Znodes) -> None:
    await nodes.create("/a")
    await run_limited(nodes, nodes.create, [f"/a/{number}" for number in range(100)])
    assert len(await nodes.children("/a")) == 100
    with pytest.raises(ZooKeeperError, match="the node does not exist"):
        await run_limited(nodes, nodes.create, [f"/missing/{number}" for number in range(100)])


@pytest.mark.parametrize("change", ["created", "replaced", "deleted"])
async def test_a_watch_is_called_once_when_the_node_changes(nodes: Znodes, change: str) -> None:
    calls: list[str] = []
    if change != "created":
        await nodes.create("/a", b"1")
    await nodes.get("/a", lambda: calls.append(change))
    await ensure(nodes, "/other")
    assert calls == []
    await (nodes.delete("/a") if change == "deleted" else nodes.put("/a", b"2"))
    await eventually_async(lambda: calls, [change])
    await nodes.put("/a", b"3")
    await nodes.delete("/a")
    assert calls == [change]


async def test_a_watch_of_children_is_called_once_when_one_appears_or_vanishes(nodes: Znodes) -> None:
    calls: list[str] = []
    await ensure(nodes, "/a/b")
    await nodes.children("/a", lambda: calls.append("appeared"))
    await nodes.put("/a/b", b"1")
    await ensure(nodes, "/a/b/below")
    assert calls == []
    await nodes.create("/a/c")
    await eventually_async(lambda: calls, ["appeared"])
    await nodes.create("/a/d")
    assert calls == ["appeared"]
    await nodes.children("/a", lambda: calls.append("vanished"))
    await nodes.delete("/a/d")
    await eventually_async(lambda: calls, ["appeared", "vanished"])


async def test_a_watch_of_children_waits_for_a_node_that_does_not_exist(nodes: Znodes) -> None:
    calls: list[str] = []
    assert await nodes.children("/a", lambda: calls.append("created")) == ()
    await nodes.create("/a")
    await eventually_async(lambda: calls, ["created"])


async def test_ephemeral_nodes_end_with_the_session(zookeeper_connect: str) -> None:
    connect = ConnectString.parse(zookeeper_connect)
    first, second = await ZooKeeperSession.open(connect, SETTINGS), await ZooKeeperSession.open(connect, SETTINGS)
    vanished = asyncio.Event()
    await first.create("/a", ephemeral=True)
    assert await second.get("/a", vanished.set) == Znode(data=b"", owner=first.session_id)
    await first.close()
    await asyncio.wait_for(vanished.wait(), 30)
    await second.close()
    assert first.lost.is_set()
    with pytest.raises(ZooKeeperError, match="the session is closed"):
        await first.get("/a")


async def test_a_lost_connection_calls_the_watches_and_fails_what_waits() -> None:
    with EmbeddedZooKeeper(settings={"tickTime": 3000}) as server:
        # Longer than the server takes to start again.
        settings = ZooKeeperSettings(zookeeper_session_timeout_ms=60_000)
        connection = await ZooKeeperSession.open(ConnectString.parse(server.connect_string), settings)
        changed = asyncio.Event()
        await connection.get("/a", changed.set)
        server.pause()
        waiting = asyncio.create_task(connection.get("/b"))
        await eventually_async(lambda: len(connection._client._pending), 1)
        server.kill()
        with pytest.raises(ZooKeeperError, match="/b: the connection was lost"):
            await waiting
        await asyncio.wait_for(changed.wait(), 30)
        server.start()
        assert await connection.get("/a") is None
        await connection.close()


async def test_a_session_is_not_closed_by_abandon(zookeeper_connect: str) -> None:
    connect = ConnectString.parse(zookeeper_connect)
    first, second = await ZooKeeperSession.open(connect, SETTINGS), await ZooKeeperSession.open(connect, SETTINGS)
    await first.create("/a", ephemeral=True)
    await first.abandon()
    vanished = asyncio.Event()
    assert await second.get("/a", vanished.set) is not None
    await asyncio.wait_for(vanished.wait(), 60)
    await second.close()


async def test_an_unreachable_server_is_an_error_with_the_reason_of_each() -> None:
    with pytest.raises(ZooKeeperError) as raised:
        await ZooKeeperSession.open(
            ConnectString.parse("127.0.0.1:1,no-such-host.invalid:2"),
            ZooKeeperSettings(zookeeper_connection_timeout_ms=100),
        )
    text = str(raised.value)
    assert text.startswith("no ZooKeeper server has opened a session within 100 ms (127.0.0.1:1: Connection refused; ")
    assert "no-such-host.invalid:2: " in text


async def test_a_server_that_is_not_zookeeper_is_an_error() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ZooKeeperError, match="has not answered as a ZooKeeper server"):
            await ZooKeeperSession.open(
                ConnectString.parse(f"127.0.0.1:{port}"), ZooKeeperSettings(zookeeper_connection_timeout_ms=500)
            )


async def test_a_cancelled_opening_ends_at_once() -> None:
    opening = asyncio.create_task(
        ZooKeeperSession.open(
            ConnectString.parse("127.0.0.1:1"), ZooKeeperSettings(zookeeper_connection_timeout_ms=2**31 - 1)
        )
    )
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
