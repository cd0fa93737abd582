from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

import pytest
from dirty_equals import AnyThing, Contains, IsStr

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.framing import decode_response
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker.driver import batch, produce_request
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.servers.brokers import AnyBroker, TopicMaker
from tests.support.waiting import eventually

BY_NAME, BY_ID = 12, 16
ONE = len(batch(b"x" * 1000))
PATIENCE_S = 30.0
LONG_MS = 60_000
FOR_EVER_MS = 600_000  # longer than a test may take
NONE, LAST = 0, -1


class Fetcher:
    """One client, its topics by letters of the test's own, and the session that it is in."""

    def __init__(self, broker: AnyBroker, new_topic: TopicMaker, version: int) -> None:
        self.client = RawClient(broker.bootstrap_servers)
        self.version = version
        self.session_id, self.epoch = 0, 0
        self.topics: dict[str, str] = {}
        self.ids: dict[str, UUID] = {}
        self._new_topic = new_topic

    def create(self, letter: str, partitions: int = 1) -> None:
        """Create a topic and wait until it can be fetched from."""
        self.topics[letter] = self._new_topic(partitions=partitions)
        self.learn_id(letter)
        for index in range(partitions):
            name = f"{letter}{index}"
            eventually(lambda: self.look(name).error_code, NONE, within_s=PATIENCE_S)  # noqa: B023  # called at once

    def learn_id(self, letter: str) -> None:
        named = MetadataRequestTopic(name=self.topics[letter])
        (topic,) = self.client.ask(MetadataRequest(topics=(named,), allow_auto_topic_creation=False), 12).topics
        self.ids[letter] = topic.topic_id

    def produce(self, name: str, value: bytes = b"x" * 1000) -> None:
        response = self.client.ask(produce_request(self.topics[name[0]], batch(value), int(name[1:])), 9)
        assert response.responses[0].partition_responses[0].error_code == 0

    def request(
        self,
        wanted: Mapping[str, int] | Iterable[str] = (),
        *,
        forget: Iterable[str] = (),
        max_partition: int = 1 << 20,
        parts: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> FetchRequest:
        """``wanted`` are partitions such as ``a0``, with the offset to read from; ``parts`` more to say of each."""
        offsets = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted, 0)
        return FetchRequest(
            session_id=others.pop("session_id", self.session_id),
            session_epoch=others.pop("session_epoch", self.epoch),
            topics=tuple(
                FetchTopic(
                    **self.topic(name),
                    partitions=(
                        FetchPartition(
                            partition=int(name[1:]),
                            fetch_offset=offset,
                            partition_max_bytes=max_partition,
                            **(parts or {}),
                        ),
                    ),
                )
                for name, offset in offsets.items()
            ),
            forgotten_topics_data=tuple(
                ForgottenTopic(**self.topic(name), partitions=(int(name[1:]),)) for name in forget
            ),
            **others,
        )

    def topic(self, name: str) -> dict[str, Any]:
        """A topic by name or id, as the version needs."""
        if self.version >= 13:
            return {"topic_id": self.ids[name[0]]}
        return {"topic": self.topics[name[0]]}

    def ask(self, *wanted: Any, version: int | None = None, **others: Any) -> FetchResponse:
        """One fetch, refused or not."""
        return self.client.ask(self.request(*wanted, **others), version or self.version)

    def fetch(self, *wanted: Any, **others: Any) -> list[tuple[str, int, int]]:
        """One fetch in the session: each partition in the response, its error and its bytes; topics in their order."""
        response = self.ask(*wanted, **others)
        assert response.error_code == NONE
        if self.epoch != LAST:
            self.session_id, self.epoch = response.session_id, self.epoch + 1
        return self.listed(response)

    def listed(self, response: FetchResponse) -> list[tuple[str, int, int]]:
        letters: dict[object, str] = {self.topics[letter]: letter for letter in self.topics}
        letters |= {self.ids[letter]: letter for letter in self.ids}
        return [
            (f"{letters.get(topic.topic or topic.topic_id, '?')}{part.partition_index}", part.error_code, size(part))
            for topic in response.responses
            for part in topic.partitions
        ]

    def look(self, name: str, **others: Any) -> PartitionData:
        """One partition's records, fetched without a session."""
        return self.ask([name], session_id=0, session_epoch=LAST, **others).responses[0].partitions[0]


def size(part: PartitionData) -> int:
    return len(part.records) if isinstance(part.records, memoryview) else 0


@pytest.fixture(params=[BY_NAME, BY_ID], ids=["by name", "by id"])
def fetcher(any_broker: AnyBroker, new_topic: TopicMaker, request: pytest.FixtureRequest) -> Iterator[Fetcher]:
    found = Fetcher(any_broker, new_topic, request.param)
    yield found
    found.client.sock.close()


def test_a_session_from_its_first_fetch_to_its_end(fetcher: Fetcher) -> None:
    fetcher.create("a", 2)
    fetcher.create("b")
    fetcher.produce("a0")
    assert fetcher.fetch(["a0", "a1", "b0"]) == [("a0", 0, ONE), ("a1", 0, 0), ("b0", 0, 0)]
    assert fetcher.session_id > 0
    assert fetcher.fetch({"a0": 1}) == []
    fetcher.produce("b0")
    assert fetcher.fetch() == [("b0", 0, ONE)]
    assert fetcher.fetch() == [("b0", 0, ONE)]
    assert fetcher.fetch(forget=["b0"]) == []
    fetcher.produce("b0")
    assert fetcher.fetch() == []
    assert fetcher.fetch({"b0": 1}) == [("b0", 0, ONE)]
    session_id, epoch = fetcher.session_id, fetcher.epoch
    assert fetcher.listed(fetcher.ask(["a1"], session_epoch=LAST)) == [("a1", 0, 0)]
    assert fetcher.ask(session_id=session_id, session_epoch=epoch).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_partitions_take_turns_when_a_response_has_no_room_for_all(fetcher: Fetcher) -> None:
    fetcher.create("a", 3)
    for name in ("a0", "a1", "a2"):
        for _ in range(2):
            fetcher.produce(name)
    offsets = {"a0": 0, "a1": 0, "a2": 0}
    assert fetcher.fetch(offsets, max_bytes=1) == [("a0", 0, ONE), ("a1", 0, 0), ("a2", 0, 0)]
    # The session remembers its partitions in the order of the response; only an incremental fetch moves them.
    seen = []
    offsets["a0"] = 1
    changed = {"a0": 1}
    for _ in range(5):
        ((name, _, _),) = fetcher.fetch(changed, max_bytes=1)
        seen.append(name)
        offsets[name] += 1
        changed = {name: offsets[name]}
    assert seen == ["a0", "a1", "a2", "a1", "a2"]


def test_wrong_sessions_and_epochs(fetcher: Fetcher) -> None:
    fetcher.create("a")
    for session_id, epoch in ((0, 1), (77, 1)):
        response = fetcher.ask(["a0"], session_id=session_id, session_epoch=epoch)
        assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
        assert response.responses == ()
    fetcher.fetch(["a0"])
    for epoch in (2, 7, -3):
        response = fetcher.ask(session_epoch=epoch)
        assert (response.error_code, response.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)
    other = BY_ID if fetcher.version == BY_NAME else BY_NAME
    response = fetcher.ask(version=other)
    assert (response.error_code, response.session_id) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0)
    assert fetcher.fetch() == []


def test_a_session_left_without_partitions_is_over(fetcher: Fetcher) -> None:
    fetcher.create("a")
    fetcher.fetch(["a0"])
    session_id = fetcher.session_id
    assert fetcher.fetch(forget=["a0"]) == []
    assert fetcher.session_id == 0
    response = fetcher.ask(session_id=session_id, session_epoch=2)
    assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_an_empty_fetch_opens_a_session_too(fetcher: Fetcher) -> None:
    fetcher.create("a")
    assert fetcher.fetch() == []
    assert fetcher.session_id > 0
    assert fetcher.fetch(["a0"]) == [("a0", 0, 0)]


def test_errors_come_last_and_again_each_time(fetcher: Fetcher) -> None:
    fetcher.create("a", 2)
    fetcher.topics["z"], fetcher.ids["z"] = "no-such-topic", UUID(int=77)
    missing = ErrorCode.UNKNOWN_TOPIC_ID if fetcher.version >= 13 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    wanted = {"z0": 0, "a7": 0, "a0": 0, "a1": 55}
    bad = [("a1", ErrorCode.OFFSET_OUT_OF_RANGE, 0), ("z0", missing, 0)]
    partition = ("a7", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    assert fetcher.fetch(wanted) == [("a0", 0, 0), *bad, partition]
    assert fetcher.fetch() == [*bad, partition]
    assert fetcher.fetch({"a1": 0}, forget=["z0", "a7"]) == [("a1", 0, 0)]
    assert fetcher.fetch() == []


def test_a_topic_that_goes_and_comes_back(fetcher: Fetcher) -> None:
    fetcher.create("a")
    fetcher.produce("a0")
    assert fetcher.fetch({"a0": 1}) == [("a0", 0, 0)]
    name, old_id = fetcher.topics["a"], fetcher.ids["a"]
    (gone,) = fetcher.client.ask(DeleteTopicsRequest(topic_names=(name,), timeout_ms=LONG_MS), 5).responses
    assert gone.error_code == NONE

    def answered(code: ErrorCode) -> list[tuple[str, int, int]]:
        """The response of the session to this error code."""
        return eventually(fetcher.fetch, Contains((IsStr, code, AnyThing)), within_s=PATIENCE_S)

    assert answered(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) == [("a0", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    again = CreatableTopic(name=name, num_partitions=1, replication_factor=1)

    def create() -> int:
        (made,) = fetcher.client.ask(CreateTopicsRequest(topics=(again,), timeout_ms=LONG_MS), 7).topics
        return made.error_code

    eventually(create, NONE, within_s=PATIENCE_S)
    if fetcher.version >= 13:
        fetcher.ids["a"] = old_id
        assert answered(ErrorCode.INCONSISTENT_TOPIC_ID) == [("a0", ErrorCode.INCONSISTENT_TOPIC_ID, 0)]
    else:  # by its name it is another topic, and shorter
        assert answered(ErrorCode.OFFSET_OUT_OF_RANGE) == [("a0", ErrorCode.OFFSET_OUT_OF_RANGE, 0)]


def test_limits(fetcher: Fetcher) -> None:
    fetcher.create("a", 2)
    for name in ("a0", "a1"):
        for _ in range(3):
            fetcher.produce(name)
    everything = {"a0": 0, "a1": 0}
    fetcher.epoch = LAST

    def sizes(**limits: int) -> list[int]:
        return [found for _, _, found in fetcher.fetch(everything, **limits)]

    assert sizes() == [3 * ONE, 3 * ONE]
    assert sizes(max_bytes=1) == [ONE, 0]
    assert sizes(max_bytes=0) == [ONE, 0]
    assert sizes(max_partition=1) == [ONE, 0]
    assert sizes(max_bytes=3 * ONE + 5) == [3 * ONE, 0]
    assert sizes(max_bytes=4 * ONE) == [3 * ONE, ONE]
    assert sizes(max_bytes=4 * ONE + 7) == [3 * ONE, ONE + 7]
    assert sizes(max_partition=ONE + 5) == [ONE + 5, ONE + 5]
    assert sizes(max_partition=ONE - 1) == [ONE, 0]


@pytest.mark.parametrize(
    ("epoch", "offset", "expected"),
    [
        (0, 2, (0, -1, -1, ONE)),
        (0, 3, (0, -1, -1, 0)),
        (0, 4, (0, 0, 3, 0)),
        (0, 9, (0, 0, 3, 0)),
        (1, 2, (ErrorCode.OFFSET_OUT_OF_RANGE, -1, -1, 0)),
        (-1, 2, (0, -1, -1, ONE)),
    ],
)
def test_where_the_logs_part(fetcher: Fetcher, epoch: int, offset: int, expected: tuple[int, int, int, int]) -> None:
    fetcher.create("a")
    for _ in range(3):
        fetcher.produce("a0")
    response = fetcher.ask({"a0": offset}, session_epoch=LAST, parts={"last_fetched_epoch": epoch})
    (part,) = response.responses[0].partitions
    diverging = part.diverging_epoch
    assert (part.error_code, diverging.epoch, diverging.end_offset, size(part)) == expected


def test_a_wait_ends_with_records_or_with_what_is_wrong(fetcher: Fetcher, any_broker: AnyBroker) -> None:
    fetcher.create("a", 2)
    fetcher.fetch({"a0": 0, "a1": 0})
    assert fetcher.fetch({"a1": 99}, max_wait_ms=FOR_EVER_MS, min_bytes=1) == [("a1", ErrorCode.OFFSET_OUT_OF_RANGE, 0)]
    with RawClient(any_broker.bootstrap_servers) as other:
        question = fetcher.request({"a1": 0}, max_wait_ms=FOR_EVER_MS, min_bytes=1)
        fetcher.client.send(request_bytes(question, fetcher.version))
        other.ask(produce_request(fetcher.topics["a"], batch(b"x" * 1000)), 9)
        response = fetcher.listed(decode_response(FetchResponse, fetcher.version, fetcher.client.frame())[1])
    assert response == [("a0", 0, ONE), ("a1", 0, 0)]
    fetcher.epoch += 1
    assert fetcher.fetch({"a0": 1}, max_wait_ms=50, min_bytes=1) == []
