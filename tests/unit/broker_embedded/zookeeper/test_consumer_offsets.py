"""Offsets of groups in znodes in memory, in sessions that fail, end and do not respond."""

import asyncio

import pytest

from broker_embedded._zookeeper.consumer_offsets import ConsumerOffsets
from broker_embedded._zookeeper.znodes import Znode
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.waiting import eventually_async
from tests.support.zookeeper.sessions_in_memory import SessionInMemory
from tests.support.zookeeper.znodes_in_memory import ZooKeeperInMemory

NEVER_MS = 600_000
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
PATH = "/consumers/g/offsets/t/0"
MANY = {TopicPartition("t", index): index for index in range(200)}


@pytest.fixture
def zookeeper() -> ZooKeeperInMemory:
    return ZooKeeperInMemory()


def stored(zookeeper: ZooKeeperInMemory) -> dict[str, str]:
    return {path.removeprefix("/consumers/"): data for path, data in zookeeper.data("/consumers").items()}


async def test_offsets_are_decimal_text_below_their_group(zookeeper: ZooKeeperInMemory) -> None:
    offsets = ConsumerOffsets(SessionInMemory(zookeeper), NEVER_MS)
    for group, wanted in (("g", {FIRST: 5, SECOND: -1}), ("h", {FIRST: 2**63 - 1}), ("g", {FIRST: 6})):
        assert await offsets.store(group, wanted) == wanted.keys()
    expected = {"g/offsets/t/0": "6", "g/offsets/t/1": "-1", "h/offsets/t/0": str(2**63 - 1)}
    assert stored(zookeeper) == expected
    assert await offsets.read("g", [FIRST, SECOND, TopicPartition("u", 0)]) == {
        FIRST: 6,
        SECOND: -1,
        TopicPartition("u", 0): None,
    }


async def test_parents_are_created_with_the_first_offset_in_one_request(zookeeper: ZooKeeperInMemory) -> None:
    zookeeper.write({"/consumers/g/owners": ""})
    await ConsumerOffsets(SessionInMemory(zookeeper), NEVER_MS).store("g", {FIRST: 5})
    created = [request for request in zookeeper.requests if request.startswith("create_all")]
    assert created[-1] == "create_all /consumers/g/offsets"
    assert zookeeper.nodes["/consumers/g/offsets"] == Znode(data=b"", owner=0)


@pytest.mark.parametrize("group", ["", ".", "..", "a//b", "/a", "a/", "a/../b", "a\0", "\x1f", "\ue000", "\U0001f600"])
async def test_a_group_that_cannot_be_in_a_path_fails_without_a_request(
    zookeeper: ZooKeeperInMemory, group: str
) -> None:
    offsets = ConsumerOffsets(SessionInMemory(zookeeper), NEVER_MS)
    assert await offsets.store(group, {FIRST: 5}) == set()
    assert await offsets.read(group, [FIRST]) == {}
    assert zookeeper.requests == []


async def test_a_group_id_may_have_one_very_long_name(zookeeper: ZooKeeperInMemory) -> None:
    group = "\u4e2d" * 32_767
    assert await ConsumerOffsets(SessionInMemory(zookeeper), NEVER_MS).store(group, {FIRST: 5}) == {FIRST}


async def test_slashes_in_a_group_id_separate_znodes_whose_number_is_limited(
    zookeeper: ZooKeeperInMemory,
) -> None:
    offsets = ConsumerOffsets(SessionInMemory(zookeeper), NEVER_MS)
    assert await offsets.store("a/b", {FIRST: 5}) == {FIRST}
    assert stored(zookeeper) == {"a/b/offsets/t/0": "5"}
    assert await offsets.store("/".join("g" * 300), {FIRST: 5}) == {FIRST}
    assert await offsets.store("/".join("g" * 400), {FIRST: 5}) == set()


@pytest.mark.parametrize("data", ["abc", "", "1_0", " 1", "9223372036854775808", "9" * 5000])
async def test_data_that_is_not_an_offset_is_not_read(zookeeper: ZooKeeperInMemory, data: str) -> None:
    zookeeper.write({PATH: data, "/consumers/g/offsets/t/1": "7"})
    found = await ConsumerOffsets(SessionInMemory(zookeeper), NEVER_MS).read("g", [FIRST, SECOND])
    assert found == {SECOND: 7} | ({} if data else {FIRST: None})


async def test_an_error_concerns_one_partition(zookeeper: ZooKeeperInMemory, caplog: pytest.LogCaptureFixture) -> None:
    zookeeper.write({PATH: "1"})
    session = SessionInMemory(zookeeper)
    session.refused = PATH
    offsets = ConsumerOffsets(session, NEVER_MS)
    assert await offsets.store("g", {FIRST: 5, SECOND: 6}) == {SECOND}
    assert await offsets.read("g", [FIRST, SECOND]) == {SECOND: 6}
    assert caplog.messages == [
        f"offsets of group 'g' are not {done}: {PATH}: access is denied" for done in ("stored", "read")
    ]


async def test_a_znode_that_another_program_creates_meanwhile_is_replaced(zookeeper: ZooKeeperInMemory) -> None:
    session = SessionInMemory(zookeeper)

    async def create() -> None:
        zookeeper.write({PATH: "1"})

    session.before(f"create_all {PATH}", create)
    assert await ConsumerOffsets(session, NEVER_MS).store("g", {FIRST: 5}) == {FIRST}
    assert stored(zookeeper) == {"g/offsets/t/0": "5"}


async def test_requests_in_flight_are_limited_for_all_clients_together(zookeeper: ZooKeeperInMemory) -> None:
    session = SessionInMemory(zookeeper)
    offsets = ConsumerOffsets(session, NEVER_MS)
    groups = [f"g{number}" for number in range(5)]
    results = await asyncio.gather(*(offsets.store(group, MANY) for group in groups))
    assert [len(done) for done in results] == [len(MANY)] * len(groups)
    assert session.most == session.max_in_flight
    expected = {f"{group}/offsets/t/{index}": str(index) for group in groups for index in range(len(MANY))}
    assert stored(zookeeper) == expected


async def test_requests_in_flight_are_repeated_in_a_new_session(zookeeper: ZooKeeperInMemory) -> None:
    old = SessionInMemory(zookeeper)
    old.responds.clear()
    offsets = ConsumerOffsets(old, NEVER_MS)
    storing = asyncio.create_task(offsets.store("g", MANY))
    await eventually_async(lambda: old.waiting, old.max_in_flight)
    offsets.use(SessionInMemory(zookeeper))
    assert await storing == MANY.keys()
    assert old.waiting == 0


async def test_a_request_waits_for_the_session_after_a_lost_one(zookeeper: ZooKeeperInMemory) -> None:
    old = SessionInMemory(zookeeper, fails_after=0)
    offsets = ConsumerOffsets(old, NEVER_MS)
    old.lost.set()
    storing = asyncio.create_task(offsets.store("g", {FIRST: 5}))
    reading = asyncio.create_task(offsets.read("h", [FIRST]))
    await asyncio.sleep(0)
    offsets.use(SessionInMemory(zookeeper))
    assert (await storing, await reading) == ({FIRST}, {FIRST: None})


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_stop_ends_all_requests(zookeeper: ZooKeeperInMemory, *, is_lost: bool) -> None:
    session = SessionInMemory(zookeeper)
    session.responds.clear()
    if is_lost:
        session.lost.set()
    offsets = ConsumerOffsets(session, NEVER_MS)
    storing = asyncio.create_task(offsets.store("g", MANY))
    await eventually_async(lambda: session.waiting or is_lost, session.max_in_flight if not is_lost else True)
    offsets.stop()
    assert await storing == set()
    assert await offsets.read("g", [FIRST]) == {}
    assert zookeeper.requests == []
