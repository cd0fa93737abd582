"""Our messages against Kafka's own definitions: every field of every version, and what we do not have.

The copies in the kafka-python wheel serve where Maven is out of reach; the jars have all APIs, and in 3.9 the versions
that 4.0 dropped and older brokers still need.
"""

import textwrap
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from spark_kafka_native._protocol.messages import all_requests
from spark_kafka_native._protocol.schema import Request, Response, VersionRange
from tests.support.programs import maven
from tests.support.records.kafka_messages import (
    LAST_ZOOKEEPER_KAFKA,
    NEWEST_KAFKA,
    Definitions,
    Direction,
    KafkaMessage,
    definitions_in_kafka_python,
    definitions_of_kafka,
    differences,
    our_fields,
)
from tests.support.report import Report

Message = type[Request[Any]] | type[Response]

MESSAGES: list[Message] = [message for request in all_requests().values() for message in (request, request.response)]

VERSIONS_WE_DO_WITHOUT: dict[str, tuple[str, str]] = {}
"""Message name -> (versions of the newest Kafka that we lack, why). What is not listed here must be there."""
NOT_IN_KAFKA_PYTHON = {
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
}


def _direction(message: Message) -> Direction:
    return "request" if issubclass(message, Request) else "response"


def _spoken(message: Message) -> range:
    return range(message.min_version, message.max_version + 1)


def _compare(message: Message, versions: Iterable[int], theirs: Definitions, older: Definitions) -> list[str]:
    """In what these versions of `message` differ; a version not in `theirs` is looked up in `older`."""
    key = (message.api_key, _direction(message))
    found = []
    for version in versions:
        definition = _that_has(version, theirs.get(key), older.get(key))
        if definition is None:
            found.append(f"v{version}: Kafka has no such version")
            continue
        if definition.name != message.__name__:
            found.append(f"v{version}: Kafka calls it {definition.name}")
        if (version in definition.flexible) != (version in message.flexible):
            found.append(f"v{version}: Kafka's flexible versions are {definition.flexible}")
        lines = differences(our_fields(message, version), definition.fields(version, message.versions))
        if definition is not theirs.get(key):
            # Whether a name may be dropped from newer versions is for the newest definition to say.
            lines = (line for line in lines if ": ignorable is" not in line)
        found += [f"v{version} {line}" for line in lines]
    return found


def _that_has(version: int, *definitions: KafkaMessage | None) -> KafkaMessage | None:
    return next((item for item in definitions if item is not None and version in item.versions), None)


@pytest.fixture(scope="module")
def newest() -> Definitions:
    return _from_jar(NEWEST_KAFKA)


@pytest.fixture(scope="module")
def last_zookeeper() -> Definitions:
    return _from_jar(LAST_ZOOKEEPER_KAFKA)


def _from_jar(release: str) -> Definitions:
    try:
        return definitions_of_kafka(release)
    except maven.MavenError as error:
        pytest.skip(f"Kafka {release}'s definitions are not available: {error}")


def test_messages_that_kafka_python_lacks() -> None:
    pytest.importorskip("kafka.protocol.schemas.resources", reason="kafka-python 3 is not installed")
    theirs = definitions_in_kafka_python()
    lacking = {message.__name__ for message in MESSAGES if (message.api_key, _direction(message)) not in theirs}
    assert lacking == NOT_IN_KAFKA_PYTHON


@pytest.mark.parametrize(
    "message",
    [message for message in MESSAGES if message.__name__ not in NOT_IN_KAFKA_PYTHON],
    ids=lambda message: message.__name__,
)
def test_versions_that_kafka_python_carries(message: Message) -> None:
    pytest.importorskip("kafka.protocol.schemas.resources", reason="kafka-python 3 is not installed")
    theirs = definitions_in_kafka_python()
    key = (message.api_key, _direction(message))
    # Versions older than the ones Kafka 4 defines are compared with the 3.9 jar only.
    versions = [version for version in _spoken(message) if version in theirs[key].versions]
    assert versions
    assert _compare(message, versions, theirs, {}) == []


@pytest.mark.interop
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_field_of_every_version(message: Message, newest: Definitions, last_zookeeper: Definitions) -> None:
    assert _compare(message, _spoken(message), newest, last_zookeeper) == []


@pytest.mark.interop
@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_no_version_of_the_newest_kafka_is_missing(message: Message, newest: Definitions) -> None:
    definition = newest.get((message.api_key, _direction(message)))
    if definition is None:
        pytest.skip(f"Kafka {NEWEST_KAFKA} has no {message.__name__} any more")
    theirs = set(range(definition.versions.first, definition.versions.last + 1))
    excused, why = VERSIONS_WE_DO_WITHOUT.get(message.__name__, ("none", ""))
    lacking = theirs - set(_spoken(message))
    assert {version for version in lacking if version not in VersionRange.parse(excused)} == set()
    assert all(version in lacking for version in theirs if version in VersionRange.parse(excused)), (
        f"the excuse of {message.__name__} is out of date: {why}"
    )


@pytest.mark.interop
def test_write_the_missing_apis(newest: Definitions, last_zookeeper: Definitions, report: Report) -> None:
    ours = {request.api_key: request for request in all_requests().values()}
    requests = {key: item for (key, direction), item in newest.items() if direction == "request"}
    dropped = {
        key: item for (key, direction), item in last_zookeeper.items() if direction == "request" and key not in requests
    }
    assert set(ours) <= set(requests) | set(dropped), "an API that no Kafka has"
    report(f"APIs of Kafka {NEWEST_KAFKA} that we do not have", _lines(requests, ours))
    report(f"APIs that Kafka {LAST_ZOOKEEPER_KAFKA} had last and we do not have", _lines(dropped, ours))
    older = [
        f"{message.__name__} {gap}"
        for message in MESSAGES
        if (gap := _gap(message, last_zookeeper.get((message.api_key, _direction(message)))))
    ]
    title = f"Versions that only Kafka {LAST_ZOOKEEPER_KAFKA} and older have and we do not"
    report(title, textwrap.wrap(", ".join(older), 118))


def _lines(theirs: dict[int, KafkaMessage], ours: Iterable[int]) -> list[str]:
    missing = [item for key, item in sorted(theirs.items()) if key not in ours]
    names = ", ".join(f"{item.name.removesuffix('Request')} ({item.api_key}) {item.versions}" for item in missing)
    return textwrap.wrap(f"{len(missing)} of {len(theirs)}: {names}", 118)


def _gap(message: Message, older: KafkaMessage | None) -> str:
    """The versions of `older` before our first one."""
    if older is None or older.versions.first >= message.min_version:
        return ""
    return str(VersionRange(older.versions.first, message.min_version - 1))


def _with(fields: list[dict[str, Any]], changes: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [field | changes if field["name"] == name else field for field in fields]


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (lambda fields: _with(fields, {"type": "int64"}, "MaxBytes"), "max_bytes: type is 'int32', Kafka's is 'int64'"),
        (lambda fields: _with(fields, {"default": "0"}, "MaxBytes"), "max_bytes: default is 2147483647, Kafka's is 0"),
        (lambda fields: _with(fields, {"tag": 7}, "ClusterId"), "cluster_id: tag is 0, Kafka's is 7"),
        (lambda fields: _with(fields, {"versions": "0+"}, "ReplicaId"), "replica_id: missing"),
        (lambda fields: _with(fields, {"versions": "0-14"}, "RackId"), "rack_id: Kafka has no such field"),
        (lambda fields: _with(fields, {"ignorable": False}, "RackId"), "rack_id: ignorable is True, Kafka's is False"),
        (
            lambda fields: _with(fields, {"nullableVersions": "0+"}, "RackId"),
            "rack_id: nullable is False, Kafka's is True",
        ),
        (lambda fields: fields[::-1], "message: order is"),
        (
            lambda fields: _with(fields, {"fields": [{"name": "Topic", "type": "int8", "versions": "13+"}]}, "Topics"),
            "topics.topic_id: Kafka has no such field",
        ),
    ],
)
def test_a_definition_that_differs_is_reported(
    change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], finding: str
) -> None:
    pytest.importorskip("kafka.protocol.schemas.resources", reason="kafka-python 3 is not installed")
    definition = definitions_in_kafka_python()[1, "request"]
    changed = replace(definition, definition={"fields": change(definition.definition["fields"])})
    fetch = all_requests()[1]
    assert list(differences(our_fields(fetch, 17), definition.fields(17, fetch.versions))) == []
    lines = list(differences(our_fields(fetch, 17), changed.fields(17, fetch.versions)))
    assert any(line.startswith(finding) for line in lines), lines
