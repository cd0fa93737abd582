from uuid import UUID

import pytest

from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.broker.driver import BrokerDriver, batch, run_periodic


def by_name(broker: BrokerDriver, *names: str, version: int = 5) -> list[int]:
    if version >= 6:
        request = DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=name) for name in names))
    else:
        request = DeleteTopicsRequest(topic_names=names)
    return [result.error_code for result in broker.ask(request, version).responses]


def directories(broker: BrokerDriver) -> list[str]:
    return sorted(path.name for path in broker.data_dir.iterdir() if path.is_dir())


@pytest.mark.parametrize("version", range(7))
def test_topics_by_name_in_every_version(broker: BrokerDriver, version: int) -> None:
    broker.passing_for("3.9")
    broker.create("a", partitions=2)
    broker.create("b")
    assert by_name(broker, "a", "missing", version=version) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert set(broker.broker.image.topics) == {"b"}


def test_topics_by_id(broker: BrokerDriver) -> None:
    broker.create("a")
    topic_id = broker.topic_id("a")
    states = (DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=UUID(int=5)), DeleteTopicState())
    results = broker.ask(DeleteTopicsRequest(topics=states), 6).responses
    assert [(result.name, result.topic_id, result.error_code) for result in results] == [
        ("a", topic_id, 0),
        (None, UUID(int=5), ErrorCode.UNKNOWN_TOPIC_ID),
        (None, UUID(int=0), ErrorCode.INVALID_REQUEST),
    ]
    assert results[2].error_message == "Neither topic name nor id were specified."


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_deleted_topic_stays_away_and_its_name_is_free(broker: BrokerDriver, how: str) -> None:
    broker.create("a")
    broker.produce("a", batch(b"old"))
    by_name(broker, "a")
    getattr(broker, how)()
    assert broker.broker.image.topics == {}
    broker.create("a")
    assert broker.values("a") == []


def test_the_files_go_when_their_time_has_come(broker: BrokerDriver) -> None:
    broker.create("a", partitions=2, file_delete_delay_ms="1000")
    by_name(broker, "a")
    assert all(name.endswith("-delete") for name in directories(broker))
    broker.run(run_periodic(broker.broker, "removal of deleted files"))
    assert len(directories(broker)) == 2
    broker.clock.advance(1000)
    broker.run(run_periodic(broker.broker, "removal of deleted files"))
    assert directories(broker) == []


def test_a_topic_named_twice_stays(broker: BrokerDriver) -> None:
    broker.create("a")
    assert by_name(broker, "a", "a") == [ErrorCode.INVALID_REQUEST]
    assert set(broker.broker.image.topics) == {"a"}


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_the_broker_may_forbid_it(broker: BrokerDriver, version: int, code: ErrorCode) -> None:
    broker.restart({"delete.topic.enable": False})
    broker.create("a")
    assert by_name(broker, "a", version=version) == [code]
    assert set(broker.broker.image.topics) == {"a"}


def test_concurrent_requests_delete_the_topic_once(broker: BrokerDriver) -> None:
    broker.create("a")
    tasks = [broker.begin(DeleteTopicsRequest(topic_names=("a",)), 5) for _ in range(2)]
    codes = [response.responses[0].error_code for task in tasks if (response := broker.run(task))]
    assert sorted(codes) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
