from collections.abc import Callable
from typing import Any, cast
from unittest.mock import Mock

import pytest

from broker_embedded._server.connection import Connection
from broker_embedded._server.dispatch import Peer
from broker_embedded._server.status.coordination import describe_group, list_groups
from broker_embedded._server.status.overview import describe_topic, list_connections, list_topics
from broker_embedded._server.status.query import Query, page_of
from spark_kafka_native._protocol.errors import KafkaError
from spark_kafka_native._protocol.topic import TopicPartition
from tests.support.broker.driver import NODE, BrokerDriver, batch, commit_offset


@pytest.fixture
def driver(broker: BrokerDriver) -> BrokerDriver:
    """The topic t with a record in each of two partitions; group g has read none of them."""
    broker.create("t", partitions=2)
    for index in range(2):
        broker.produce("t", batch(b"1"), index)
        assert commit_offset(broker, 0, index) == 0
    return broker


def groups(driver: BrokerDriver) -> list[dict[str, Any]]:
    """The rows of all groups."""
    rows: list[dict[str, Any]] = list_groups(driver.broker, Query({}))["rows"]
    return rows


def test_commits_of_a_deleted_topic_are_not_those_of_a_topic_with_its_name(
    driver: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forget_nothing(topic: str) -> None:
        pass

    monkeypatch.setattr(driver.broker.groups, "forget_topic", forget_nothing)
    driver.delete("t")
    for _ in ("deleted", "recreated"):
        assert [(row["committed_partitions"], row["lag"]) for row in groups(driver)] == [(0, None)]
        assert describe_group(driver.broker, Query({"id": "g"}))["rows"] == []
        if driver.broker.image.topic("t") is None:
            driver.create("t", partitions=2)


def take_offline(driver: BrokerDriver, index: int) -> None:
    """Take the log of a partition of the topic t offline."""
    with pytest.raises(KafkaError):
        driver.broker.logs.logs[TopicPartition("t", index)].local.go_offline("cannot flush", OSError("bad disk"))


def commit_too_far(driver: BrokerDriver, index: int) -> None:
    """Commit an offset that is greater than the high watermark of a partition of the topic t."""
    assert commit_offset(driver, 2, index) == 0


@pytest.mark.parametrize("lose", [take_offline, commit_too_far])
def test_a_lag_is_unknown_without_a_high_watermark_or_after_it(
    driver: BrokerDriver, lose: Callable[[BrokerDriver, int], None]
) -> None:
    assert [(row["lag"], row["unknown_lags"]) for row in groups(driver)] == [(2, 0)]
    lose(driver, 1)
    assert [(row["lag"], row["unknown_lags"]) for row in groups(driver)] == [(1, 1)]
    rows = describe_group(driver.broker, Query({"id": "g"}))["rows"]
    assert [(row["partition"], row["lag"]) for row in rows] == [(0, 1), (1, None)]
    lose(driver, 0)
    assert [(row["lag"], row["unknown_lags"]) for row in groups(driver)] == [(None, 2)]


def test_a_group_that_has_read_all_records_has_no_lag(driver: BrokerDriver) -> None:
    for index in range(2):
        assert commit_offset(driver, 1, index) == 0
    assert [(row["lag"], row["unknown_lags"]) for row in groups(driver)] == [(0, 0)]


def test_a_partition_whose_log_is_offline_has_the_error_and_no_offsets(driver: BrokerDriver) -> None:
    take_offline(driver, 1)
    online, offline = describe_topic(driver.broker, Query({"name": "t"}))["rows"]
    assert (online["partition"], online["high_watermark"]) == (0, 1)
    image = {"partition": 1, "leader": 1, "leader_epoch": 0, "replicas": [1], "isr": [1]}
    assert offline == image | {"offline": "cannot flush: bad disk"}
    (row,) = list_topics(driver.broker, Query({"contains": "t", "after": "a"}))["rows"]
    assert (row["name"], row["offsets"]) == ("t", 1)


def test_connections_have_500_rows_without_a_limit(driver: BrokerDriver) -> None:
    connections = {
        cast("Connection", Mock(peer=f"127.0.0.1:{port}", last_active_ms=0)): Peer(node=NODE)
        for port in range(10_501, 10_000, -1)
    }
    answer = list_connections(driver.broker, connections, Query({}))
    assert [row["peer"] for row in answer["rows"]] == [f"127.0.0.1:{port}" for port in range(10_001, 10_501)]
    assert answer["count"] == 501


def test_a_response_ends_after_10000_partitions() -> None:
    read = []

    def row_of(name: str) -> tuple[dict[str, Any], int]:
        read.append(name)
        return {"name": name}, 4_000

    first = page_of("abcde", Query({}), row_of)
    assert (first["rows"], first["next"]) == ([{"name": "a"}, {"name": "b"}, {"name": "c"}], "c")
    rest = page_of("abcde", Query({"after": "c"}), row_of)
    assert (rest["rows"], rest["next"]) == ([{"name": "d"}, {"name": "e"}], None)
    assert read == list("abcde")
