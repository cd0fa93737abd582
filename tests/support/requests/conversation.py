"""The same questions to several brokers, and their answers in a form that can be compared."""

import dataclasses
import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from spark_kafka_native._protocol.schema import Request, Response
from spark_kafka_native._protocol.wire import ZERO_UUID
from tests.support.requests.of_topic import list_offsets
from tests.support.requests.raw_client import RawClient
from tests.support.waiting import WITHIN_S, eventually, last_of

ResponseT = TypeVar("ResponseT", bound=Response)

_RANDOM: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
CLOSED: Final = "the connection was closed"
_NOT_YET: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
_THEIR_OWN: Final = {
    "batch_index_error_message",
    "cluster_id",
    "configs",
    "controller_id",
    "error_message",
    "finalized_features",
    "finalized_features_epoch",
    "host",
    "last_timestamp",
    "node_endpoints",
    "port",
    "producer_id",
    "rack",
    "supported_features",
    "throttle_time_ms",
    "transaction_start_time_ms",
}
"""Fields in which brokers may differ."""


class Conversation:
    """Requests to one broker over one connection, reopened when the broker closes it; ``responses`` has all so far.

    ``expected`` are the responses of another broker to the same requests, if they are known. Topics named by ``topic``
    have names of their own on each broker; the responses have the names that the test uses.
    """

    _numbers = itertools.count(1)

    def __init__(self, bootstrap_servers: str) -> None:
        self._address = bootstrap_servers
        self._client = RawClient(bootstrap_servers)
        self._prefix = f"talk{next(self._numbers)}-"
        self._names: dict[UUID, str] = {}
        self.responses: list[tuple[str, object]] = []
        self.expected: Sequence[tuple[str, object]] = ()

    def close(self) -> None:
        """Close the connection."""
        self._client.sock.close()

    def topic(self, name: str) -> str:
        """The name that the test's topic has on this broker."""
        return self._prefix + name

    def plain(self, name: str) -> str:
        """The test's name of a topic of this broker; of anything else its own."""
        return name.removeprefix(self._prefix)

    def topic_id(self, name: str) -> UUID:
        """The id of the test's topic."""
        return next(topic_id for topic_id, known in self._names.items() if known == name)

    def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        """Make a topic and wait until the broker serves it. Records may be of any time unless ``configs`` say so.

        ``retention_ms="1"`` is the config ``retention.ms=1``.
        """
        wanted_configs = {"message_timestamp_after_max_ms": str(2**63 - 1), **configs}
        pairs = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in wanted_configs.items()]
        wanted = CreatableTopic(
            name=self.topic(name), num_partitions=partitions, replication_factor=1, configs=tuple(pairs)
        )
        (made,) = self._client.ask(CreateTopicsRequest(topics=(wanted,)), 7).topics
        assert made.error_code == 0, made
        self._names[made.topic_id] = name
        question = list_offsets(self.topic(name), -1, *range(partitions))
        eventually(lambda: _codes(self._client.ask(question, 9)), {ErrorCode.NONE})

    def ask(self, request: Request[Any], version: int, note: str = "") -> None:
        """Ask, and remember the response, once the broker's coordinators are ready for it."""
        note = note.replace(self._prefix, "")
        self.remember(f"{request.api_name} v{version} {note}".strip(), self._ask_when_ready(request, version))

    def remember(self, question: str, response: object) -> None:
        """Remember a response that is there already."""
        self.responses.append((question, response if isinstance(response, str) else self._comparable(response)))

    def look(self, question: str, read: Callable[[], object]) -> None:
        """Remember what ``read`` finds, which must change nothing.

        A broker that gets the same requests as another is retried for a while if its responses differ: brokers of
        Apache Kafka hear of changes shortly after these were answered.
        """
        expected = self.expected[len(self.responses) :]
        said = last_of(read, lambda said: not expected or said == expected[0][1], within_s=WITHIN_S / 3)
        self.responses.append((question, said))

    def response(self, request: Request[ResponseT], version: int) -> ResponseT:
        """Ask, once the broker's coordinators are ready for it, and leave the response to the caller."""
        response: ResponseT = self._ask_when_ready(request, version)
        return response

    def send_raw(self, data: bytes, note: str) -> None:
        """Send bytes, and remember the frame that comes back without its correlation id."""
        try:
            self._client.send(data)
            said: object = self._client.frame()[4:]
        except OSError:
            self._reopen()
            said = CLOSED
        self.responses.append((note, said))

    def _ask_when_ready(self, request: Request[Any], version: int) -> Any:
        def is_ready(response: object) -> bool:
            if not _codes(response) & _NOT_YET:
                return True
            # Apache Kafka makes the topic in which it keeps groups when it is first asked where one is, and only then.
            self._ask(FindCoordinatorRequest(key="anybody"), 3)
            return False

        return last_of(lambda: self._ask(request, version), is_ready)

    def _ask(self, request: Request[Any], version: int) -> Any:
        try:
            return self._client.ask(request, version)
        except OSError:
            self._reopen()
            return CLOSED

    def _reopen(self) -> None:
        self._client.sock.close()
        self._client = RawClient(self._address)

    def _comparable(self, value: object) -> object:
        if isinstance(value, tuple):  # brokers answer in an order of their own
            return sorted((self._comparable(item) for item in value), key=repr)
        if dataclasses.is_dataclass(value):
            fields = [field.name for field in dataclasses.fields(value) if field.name not in _THEIR_OWN]
            return {name: self._comparable(getattr(value, name)) for name in fields}
        if isinstance(value, UUID):
            return value if value == ZERO_UUID else self._names.get(value, "some id")
        if isinstance(value, str):
            return _RANDOM.sub("some-uuid", self.plain(value))
        return bytes(value) if isinstance(value, memoryview) else value


def _codes(value: object) -> set[ErrorCode]:
    """Every error code anywhere in a response."""
    if isinstance(value, tuple):
        return set().union(*map(_codes, value))
    if dataclasses.is_dataclass(value):
        found = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        own = {ErrorCode.of(code) for name, code in found.items() if name.endswith("error_code")}
        return own.union(*map(_codes, found.values()))
    return set()
