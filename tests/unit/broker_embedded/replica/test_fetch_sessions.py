import itertools
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from broker_embedded._replica.fetch_sessions import (
    EVICTION_MS,
    NO_SESSION,
    FetchContext,
    FetchedPartition,
    FetchSessions,
    new_session_id,
)
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from tests.support.refusals import refused

IDS = {"a": UUID(int=1), "b": UUID(int=2), "c": UUID(int=3)}
BY_NAME, BY_ID = 12, 13
FULL, LAST = 0, -1


@dataclass
class Read:
    """What a read returned in a partition."""

    fetched: FetchedPartition
    size: int = 0
    error_code: int = 0
    high_watermark: int = 10
    log_start_offset: int = 0
    diverges: bool = False


class FetchingClient:
    """A client that fetches, and its partitions, which are as `Read` has them by default."""

    def __init__(self, slots: int = 10, version: int = BY_NAME) -> None:
        self._ids = itertools.count(101)
        self.sessions = FetchSessions(slots, lambda: next(self._ids))
        self.version = version
        self.names = {id_: name for name, id_ in IDS.items()}
        self.now_ms = 1_000_000

    def begin(
        self,
        fetched: Mapping[str, int] | Iterable[str] = (),
        *,
        session: int = 0,
        epoch: int = FULL,
        forget: Iterable[str] = (),
        follower: bool = False,
        version: int | None = None,
    ) -> FetchContext:
        """``fetched`` are partitions such as ``a0``, with the offsets to read from."""
        offsets = fetched if isinstance(fetched, Mapping) else dict.fromkeys(fetched, 0)
        request = FetchRequest(
            session_id=session,
            session_epoch=epoch,
            replica_state=ReplicaState(replica_id=2 if follower else -1),
            topics=tuple(
                FetchTopic(
                    topic=name[0],
                    topic_id=IDS[name[0]],
                    partitions=(FetchPartition(partition=int(name[1:]), fetch_offset=offset),),
                )
                for name, offset in offsets.items()
            ),
            forgotten_topics_data=tuple(
                ForgottenTopic(topic=name[0], topic_id=IDS[name[0]], partitions=(int(name[1:]),)) for name in forget
            ),
        )
        return self.sessions.begin(request, version or self.version, self.names.get, lambda: self.now_ms)

    def fetch(
        self,
        fetched: Mapping[str, int] | Iterable[str] = (),
        *,
        results: Mapping[str, Mapping[str, Any]] | None = None,
        **request: Any,
    ) -> tuple[int, list[str]]:
        """A whole fetch, as ``begin``: the session id and the partitions of the response."""
        context = self.begin(fetched, **request)
        reads = [Read(each, **(results or {}).get(name_of(each), {})) for each in context.partitions]
        selected = context.select(reads)
        returned = context.finish(reads)
        assert returned == selected
        opened = self.sessions.open(context, reads, self.now_ms)
        return opened or context.session_id, [name_of(each.fetched) for each in returned]


def name_of(fetched: FetchedPartition) -> str:
    return f"{fetched.topic or '?'}{fetched.request.partition}"


def code_of(client: FetchingClient, **request: Any) -> ErrorCode:
    return refused(client.begin, ["a0"], **request).code


@pytest.fixture(params=[BY_NAME, BY_ID], ids=["by name", "by id"])
def client(request: pytest.FixtureRequest) -> FetchingClient:
    return FetchingClient(version=request.param)


def test_a_full_fetch_opens_a_session_whose_next_fetches_name_no_partition(client: FetchingClient) -> None:
    assert client.fetch(["a0", "a1", "b0"]) == (101, ["a0", "a1", "b0"])
    assert client.fetch(session=101, epoch=1) == (101, [])
    assert client.fetch(session=101, epoch=2) == (101, [])
    assert len(client.sessions) == 1
    assert client.sessions.partitions == 3


def test_session_epoch_minus_1_opens_no_session(client: FetchingClient) -> None:
    assert client.fetch(["a0"], epoch=LAST) == (NO_SESSION, ["a0"])
    assert len(client.sessions) == 0


def test_a_session_returns_only_changed_partitions(client: FetchingClient) -> None:
    client.fetch(["a0", "a1", "b0", "b1"])
    results = {"a0": {"size": 5}, "a1": {"high_watermark": 11}, "b0": {"log_start_offset": 3}}
    assert client.fetch(session=101, epoch=1, results=results) == (101, ["a0", "a1", "b0"])
    same = {"a1": {"high_watermark": 11}, "b0": {"log_start_offset": 3}}
    assert client.fetch(session=101, epoch=2, results=same) == (101, [])
    assert client.fetch(session=101, epoch=3) == (101, ["a1", "b0"])


def test_errors_and_truncations_are_returned_each_time_and_once_when_they_are_over(client: FetchingClient) -> None:
    client.fetch(["a0", "a1"])
    failing = {"a0": {"error_code": 6, "high_watermark": -1, "log_start_offset": -1}, "a1": {"diverges": 1}}
    for epoch in (1, 2):
        assert client.fetch(session=101, epoch=epoch, results=failing) == (101, ["a0", "a1"])
    assert client.fetch(session=101, epoch=3) == (101, ["a0"])
    assert client.fetch(session=101, epoch=4) == (101, [])


def test_a_partition_is_returned_once_after_an_error_with_a_known_high_watermark(client: FetchingClient) -> None:
    client.fetch(["a0"])
    assert client.fetch(session=101, epoch=1, results={"a0": {"error_code": 6}}) == (101, ["a0"])
    assert client.fetch(session=101, epoch=2) == (101, ["a0"])


def test_partitions_that_returned_records_move_to_the_end_of_the_session(client: FetchingClient) -> None:
    client.fetch(["a0", "a1", "b0"])
    client.fetch(session=101, epoch=1, results={"a0": {"size": 1}, "a1": {"high_watermark": 99}})
    assert [name_of(each) for each in client.begin(session=101, epoch=2).partitions] == ["a1", "b0", "a0"]


def test_an_incremental_fetch_adds_changes_and_forgets_partitions(client: FetchingClient) -> None:
    client.fetch({"a0": 5, "a1": 6})
    context = client.begin({"a1": 16, "c0": 7}, session=101, epoch=1, forget=["a0", "b7"])
    offsets = {name_of(each): each.request.fetch_offset for each in context.partitions}
    assert offsets == {"a1": 16, "c0": 7}
    reads = [Read(each) for each in context.partitions]
    assert [name_of(each.fetched) for each in context.finish(reads)] == ["c0"]


def test_a_partition_that_is_fetched_and_forgotten_in_one_request_is_forgotten(client: FetchingClient) -> None:
    client.fetch(["a0"])
    assert client.fetch(["b0"], session=101, epoch=1, forget=["b0"]) == (101, [])
    assert client.sessions.partitions == 1


def test_a_session_without_partitions_ends(client: FetchingClient) -> None:
    client.fetch(["a0"])
    assert client.fetch(session=101, epoch=1, forget=["a0"]) == (NO_SESSION, [])
    assert len(client.sessions) == 0
    assert code_of(client, session=101, epoch=2) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_empty_full_fetch_opens_an_empty_session(client: FetchingClient) -> None:
    assert client.fetch([]) == (101, [])
    assert client.fetch(["a0"], session=101, epoch=1) == (101, ["a0"])


def test_a_partition_that_is_requested_twice_is_read_once_at_the_last_offset(client: FetchingClient) -> None:
    part, again = FetchPartition(partition=0, fetch_offset=1), FetchPartition(partition=0, fetch_offset=2)
    topic = FetchTopic(topic="a", topic_id=IDS["a"], partitions=(part, FetchPartition(partition=1), again))
    request = FetchRequest(session_epoch=FULL, topics=(topic,))
    context = client.sessions.begin(request, client.version, client.names.get, lambda: 0)
    assert [(each.request.partition, each.request.fetch_offset) for each in context.partitions] == [(0, 2), (1, 0)]


@pytest.mark.parametrize(("session", "epoch"), [(0, 1), (77, 1), (-5, 1), (77, -7)])
def test_a_session_that_is_not_there(client: FetchingClient, session: int, epoch: int) -> None:
    assert code_of(client, session=session, epoch=epoch) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("epoch", [2, 5, -7])
def test_a_wrong_epoch_changes_nothing(client: FetchingClient, epoch: int) -> None:
    client.fetch(["a0"])
    assert code_of(client, session=101, epoch=epoch) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert client.fetch(session=101, epoch=1) == (101, [])


def test_an_epoch_cannot_be_used_twice(client: FetchingClient) -> None:
    client.fetch(["a0"])
    first, reads = client.begin(session=101, epoch=1), list[Read]()
    reads = [Read(each, size=1) for each in first.partitions]
    assert code_of(client, session=101, epoch=1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert [name_of(each.fetched) for each in first.finish(reads)] == ["a0"]


def test_a_response_to_an_overtaken_request_has_no_partition(client: FetchingClient) -> None:
    client.fetch(["a0"])
    slow = client.begin(session=101, epoch=1)
    reads = [Read(each, high_watermark=20) for each in slow.partitions]
    client.begin(session=101, epoch=2)
    assert slow.select(reads) == []
    assert refused(slow.finish, reads).code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert reads[0].fetched.high_watermark == 10


def test_session_epochs_wrap_around_without_zero(client: FetchingClient) -> None:
    client.fetch(["a0"])
    client.sessions._sessions[101].epoch = 2**31 - 1
    assert client.fetch(session=101, epoch=2**31 - 1) == (101, [])
    assert client.fetch(session=101, epoch=1) == (101, [])


@pytest.mark.parametrize("epoch", [FULL, LAST])
def test_a_full_fetch_closes_the_session_that_it_names(client: FetchingClient, epoch: int) -> None:
    client.fetch(["a0"])
    assert client.fetch(["a0"], session=101, epoch=epoch) == (102 if epoch == FULL else NO_SESSION, ["a0"])
    assert code_of(client, session=101, epoch=1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_names_and_ids_do_not_mix_in_one_session() -> None:
    for first, second in ((BY_NAME, BY_ID), (BY_ID, BY_NAME)):
        client = FetchingClient(version=first)
        client.fetch(["a0"])
        assert code_of(client, session=101, epoch=1, version=second) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        assert client.fetch(session=101, epoch=1) == (101, [])


def test_an_id_without_a_topic_gets_its_name_as_soon_as_there_is_one() -> None:
    client = FetchingClient(version=BY_ID)
    del client.names[IDS["b"]]
    assert client.fetch(["a0", "b0"])[1] == ["a0", "?0"]
    assert [each.topic for each in client.begin(session=101, epoch=1).partitions] == ["a", None]
    client.names[IDS["b"]] = "new"
    del client.names[IDS["a"]]
    assert [each.topic for each in client.begin(session=101, epoch=2).partitions] == ["a", "new"]
    assert [each.topic for each in client.begin(["a1"], session=101, epoch=3).partitions] == ["a", "new", None]


def test_a_full_cache_opens_no_session() -> None:
    client = FetchingClient(slots=2)
    assert [client.fetch(["a0"])[0] for _ in range(4)] == [101, 102, 0, 0]
    assert client.sessions.evictions == 0
    assert FetchingClient(slots=0).fetch(["a0"]) == (NO_SESSION, ["a0"])


def test_a_session_that_was_unused_for_two_minutes_makes_room() -> None:
    client = FetchingClient(slots=2)
    client.fetch(["a0"])
    client.fetch(["a0"])
    client.now_ms += EVICTION_MS
    assert client.fetch(["a0"])[0] == NO_SESSION
    client.fetch(session=102, epoch=1)
    client.now_ms += 1
    assert client.fetch(["a0"])[0] == 103
    assert client.sessions.evictions == 1
    assert code_of(client, session=101, epoch=1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(session=102, epoch=2) == (102, [])


def test_a_larger_session_evicts_an_old_smaller_one() -> None:
    client = FetchingClient(slots=2)
    client.fetch(["a0", "a1", "a2"])
    client.fetch(["a0", "a1"])
    assert client.fetch(["a0", "a1", "a2", "a3"])[0] == NO_SESSION
    for epoch in (1, 2):
        client.now_ms += EVICTION_MS // 2 + 1
        for session in (101, 102):
            client.fetch(session=session, epoch=epoch)
    assert client.fetch(["a0"])[0] == NO_SESSION
    assert client.fetch(["a0", "a1", "a2"])[0] == 103
    assert code_of(client, session=102, epoch=3) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert client.fetch(session=101, epoch=3)[0] == 101


def test_the_size_that_counts_is_the_one_of_the_last_use() -> None:
    client = FetchingClient(slots=1)
    client.fetch(["a0"])
    client.now_ms += EVICTION_MS
    client.fetch(["a1", "a2"], session=101, epoch=1)
    client.now_ms += 1
    client.fetch(session=101, epoch=2)
    assert client.fetch(["b0", "b1"])[0] == NO_SESSION
    client.fetch(session=101, epoch=3, forget=["a1", "a2"])
    assert client.fetch(["b0", "b1"])[0] == 102


def test_sessions_of_followers_evict_those_of_consumers() -> None:
    client = FetchingClient(slots=1)
    client.fetch(["a0", "a1", "a2"])
    assert client.fetch(["a0"], follower=True)[0] == 102
    client.now_ms += EVICTION_MS
    client.fetch(session=102, epoch=1)
    client.now_ms += 1
    client.fetch(session=102, epoch=2)
    assert client.fetch(["a0", "a1", "a2"])[0] == NO_SESSION
    assert client.fetch(["a0", "a1"], follower=True)[0] == 103


def test_a_session_id_in_use_is_not_assigned_again() -> None:
    numbers = iter([7, 7, 0, 8])
    client = FetchingClient()
    client.sessions = FetchSessions(5, lambda: next(numbers))
    assert [client.fetch(["a0"])[0] for _ in range(2)] == [7, 8]


def test_new_ids_are_positive_and_differ() -> None:
    ids = {new_session_id() for _ in range(1000)}
    assert len(ids) > 990
    assert all(0 < id_ < 2**31 for id_ in ids)


@pytest.mark.parametrize("seed", range(5))
def test_sessions_and_epochs_are_consistent_under_random_requests(seed: int) -> None:
    """Sessions and their epochs under random clients, against a simple model."""
    rng = random.Random(seed)
    client = FetchingClient(slots=4)
    epochs: dict[int, int] = {}
    refusals: set[ErrorCode] = set()
    for _ in range(600):
        client.now_ms += rng.choice([0, 1, 5_000, 70_000])
        if epochs and rng.random() < 0.7:
            session = rng.choice(list(epochs))
            forget = [f"a{index}" for index in range(6) if rng.random() < 0.2]
            try:
                answered, _ = client.fetch(
                    [f"a{rng.randrange(6)}"], session=session, epoch=epochs[session], forget=forget
                )
            except KafkaError as error:
                refusals.add(error.code)
                del epochs[session]
                continue
            if answered:
                epochs[session] += 1
            else:
                del epochs[session]
        else:
            opened, _ = client.fetch([f"a{index}" for index in range(rng.randint(1, 6))], follower=rng.random() < 0.2)
            if opened:
                epochs[opened] = 1
        sessions = client.sessions._sessions
        assert len(sessions) <= 4
        assert set(sessions) <= set(epochs)
        by_followers = client.sessions._evictable_by_followers.entries
        assert by_followers == sorted(by_followers)
        assert set(client.sessions._evictable.entries) <= set(by_followers)
        assert {id_ for _, _, id_ in by_followers} <= set(sessions)
        assert {session.id for session in sessions.values() if not session.privileged} <= {
            id_ for _, _, id_ in by_followers
        }
    assert refusals == {ErrorCode.FETCH_SESSION_ID_NOT_FOUND}
