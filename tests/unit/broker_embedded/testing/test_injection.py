import asyncio
from typing import Any

import pytest

from broker_embedded._handlers.support.registry import CloseConnection
from broker_embedded._testing.fields import Fields
from broker_embedded._testing.injection import Injector
from broker_embedded._testing.rules import ActiveFault, Rule
from broker_embedded._testing.scopes import Scope
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from spark_kafka_native._protocol.messages.fetch import FetchRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.broker.driver import BrokerDriver, batch, fetch_request, produce_request

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def add(injector: Injector, action: str, api: str = "Produce", **fields: Any) -> ActiveFault:
    return injector.add(Rule.parse(Fields({"action": action, "api": api, **fields})))


def fail(
    injector: Injector, api: str = "Produce", error: str | int = "NOT_LEADER_OR_FOLLOWER", **fields: Any
) -> ActiveFault:
    return add(injector, "fail", api, error=error, **fields)


def produce_to(*partitions: int, acks: int = -1) -> ProduceRequest:
    data = tuple(PartitionProduceData(index=index, records=batch(b"v%d" % index)) for index in partitions)
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=(TopicProduceData(name="t", partition_data=data),))


def codes(response: Any) -> dict[int, int]:
    return {part.index: part.error_code for topic in response.responses for part in topic.partition_responses}


def ends(broker: BrokerDriver) -> list[int]:
    return [broker.broker.partitions.get("t", index).log.log_end_offset for index in range(3)]


def test_without_faults_requests_are_served_and_recorded(broker: BrokerDriver, injector: Injector) -> None:
    broker.produce("t", batch(b"x"))
    assert broker.values("t") == [b"x"]
    assert injector.recorder.counts == {"Produce": 1, "Fetch": 1}
    (recorded,) = injector.recorder.find(api="Produce")
    assert (recorded.client_id, recorded.at_ms, recorded.faults) == ("test", broker.clock.now_ms(), ())


def test_a_failing_request_does_nothing(broker: BrokerDriver, injector: Injector) -> None:
    fault = fail(injector, times=2)
    assert [broker.produce("t", batch(b"x")).error_code for _ in range(3)] == [NOT_LEADER, NOT_LEADER, 0]
    assert broker.values("t") == [b"x"]
    assert (fault.calls, fault.hits) == (3, 2)
    assert [each.faults for each in injector.recorder.find(api="Produce")] == [(fault.id,), (fault.id,), ()]


def test_only_the_partition_that_is_meant_fails(broker: BrokerDriver, injector: Injector) -> None:
    fail(injector, topic="t", partition=1)
    assert codes(broker.ask(produce_to(0, 1, 2), 9)) == {0: 0, 1: NOT_LEADER, 2: 0}
    assert ends(broker) == [1, 0, 1]


def test_faults_are_removed_one_by_one_or_all(broker: BrokerDriver, injector: Injector) -> None:
    first, second = fail(injector, partition=0), fail(injector, partition=1)
    assert injector.get(first.id) is first
    assert injector.remove(first.id) is first
    assert injector.remove(first.id) is None
    assert list(injector.faults) == [second]
    assert codes(broker.ask(produce_to(0, 1), 9)) == {0: 0, 1: NOT_LEADER}
    injector.clear()
    assert list(injector.faults) == []
    assert codes(broker.ask(produce_to(0, 1), 9)) == {0: 0, 1: 0}
    assert fail(injector).id == 3


def test_a_drop_before_does_nothing_and_a_drop_after_has_done_it(broker: BrokerDriver, injector: Injector) -> None:
    add(injector, "drop", when="before", times=1)
    with pytest.raises(CloseConnection, match="before Produce is processed"):
        broker.produce("t", batch(b"before"))
    add(injector, "drop", when="after", times=1)
    with pytest.raises(CloseConnection, match="after Produce was processed"):
        broker.produce("t", batch(b"after"))
    assert broker.values("t") == [b"after"]


def test_delays_go_by_the_brokers_clock(broker: BrokerDriver, injector: Injector) -> None:
    add(injector, "delay", ms=500)
    add(injector, "delay", ms=200, when="after")
    task = broker.begin(produce_request("t", batch(b"x")), 9)
    broker.advance(499)
    assert (task.done(), ends(broker)[0]) == (False, 0)
    broker.advance(1)
    assert (task.done(), ends(broker)[0]) == (False, 1)
    broker.advance(200)
    assert task.done()


def test_a_stop_does_not_wait_for_delays(broker: BrokerDriver, injector: Injector) -> None:
    add(injector, "delay", ms=2**31 - 1)
    task = broker.begin(produce_request("t", batch(b"x")), 9)
    broker.settle()
    broker.broker.delayed.release()
    broker.run(asyncio.wait([task]))
    assert task.done()


def test_a_produce_that_wants_no_response_fails_by_losing_its_connection(
    broker: BrokerDriver, injector: Injector
) -> None:
    fail(injector, partition=1)
    with pytest.raises(CloseConnection, match="acks=0"):
        broker.run(broker.begin(produce_to(0, 1, acks=0), 9))
    assert ends(broker) == [1, 0, 0]
    assert broker.run(broker.begin(produce_to(0, acks=0), 9)) is None
    assert ends(broker) == [2, 0, 0]


def test_metadata_with_an_error_names_the_brokers_all_the_same(broker: BrokerDriver, injector: Injector) -> None:
    fail(injector, "Metadata", "LEADER_NOT_AVAILABLE", topic="t")
    response = broker.ask(MetadataRequest(topics=None), 12)
    assert [each.node_id for each in response.brokers] == [1]
    assert {topic.name: topic.error_code for topic in response.topics} == {"t": 5, "u": 0}


def test_some_topics_are_created_although_others_fail(broker: BrokerDriver, injector: Injector) -> None:
    fail(injector, "CreateTopics", "POLICY_VIOLATION", topic="b", message="no")
    wanted = tuple(CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in "abc")
    response = broker.ask(CreateTopicsRequest(topics=wanted), 7)
    assert {topic.name: (topic.error_code, topic.error_message) for topic in response.topics} == {
        "a": (0, None),
        "b": (44, "no"),
        "c": (0, None),
    }
    assert {"a", "c"} < broker.broker.image.topics.keys()
    assert "b" not in broker.broker.image.topics


def fetch(broker: BrokerDriver, session_id: int, epoch: int, *partitions: int) -> Any:
    request = fetch_request("t", partition=0, session_id=session_id, session_epoch=epoch)
    wanted = request.topics[0].partitions[0]
    parts = tuple(type(wanted)(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in partitions)
    topics = (type(request.topics[0])(topic="t", partitions=parts),) if parts else ()
    return broker.ask(FetchRequest(session_id=session_id, session_epoch=epoch, topics=topics), 11)


def test_a_fetch_in_a_session_fails_as_soon_as_it_names_its_partitions(
    broker: BrokerDriver, injector: Injector
) -> None:
    session_id = fetch(broker, 0, 0, 0, 1).session_id
    assert session_id > 0
    fault = fail(injector, "Fetch", "KAFKA_STORAGE_ERROR", topic="t", partition=1, times=1)
    assert fetch(broker, session_id, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert fault.calls == 0
    response = fetch(broker, 0, 0, 0, 1)
    assert (response.error_code, response.session_id) == (0, 0)
    assert {part.partition_index: part.error_code for part in response.responses[0].partitions} == {0: 0, 1: 56}
    assert fault.is_spent
    assert fetch(broker, 0, 0, 0, 1).session_id > 0


def test_delays_of_all_fetches_keep_sessions(broker: BrokerDriver, injector: Injector) -> None:
    session_id = fetch(broker, 0, 0, 0).session_id
    add(injector, "delay", "Fetch", ms=0)
    assert fetch(broker, session_id, 1).error_code == 0


def test_a_fetch_that_fails_in_part_does_not_wait(broker: BrokerDriver, injector: Injector) -> None:
    fail(injector, "Fetch", partition=1)
    request = fetch_request("t", max_wait_ms=60_000, min_bytes=1)
    assert not broker.begin(request, 11).done()
    wanted = request.topics[0].partitions[0]
    both = (wanted, type(wanted)(partition=1, partition_max_bytes=1 << 20))
    topics = (type(request.topics[0])(topic="t", partitions=both),)
    response: Any = broker.ask(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics), 11)
    assert {part.partition_index: part.error_code for part in response.responses[0].partitions} == {0: 0, 1: 6}


def test_paused_partitions_look_empty_and_wait_until_they_are_resumed(broker: BrokerDriver, injector: Injector) -> None:
    broker.produce("t", batch(b"x"))
    injector.pauses.pause(Scope(topic="t"))
    paused = broker.fetch("t")
    assert (paused.error_code, paused.records, paused.high_watermark) == (0, b"", 1)
    waiting = broker.begin(fetch_request("t", max_wait_ms=60_000, min_bytes=1), 11)
    broker.settle()
    broker.produce("t", batch(b"y"))
    broker.settle()
    assert not waiting.done()
    injector.pauses.resume(Scope(topic="t"))
    broker.broker.delayed.changed(broker.broker.partitions.get("t", 0).id)
    assert broker.run(waiting) is not None
    assert broker.values("t") == [b"x", b"y"]


@pytest.mark.parametrize("has_faults", [False, True])
def test_a_fetch_that_waits_already_is_paused_too(broker: BrokerDriver, injector: Injector, has_faults: bool) -> None:
    if has_faults:
        add(injector, "delay", "Metadata", ms=5)
    waiting = broker.begin(fetch_request("t", max_wait_ms=60_000, min_bytes=1), 11)
    broker.settle()
    injector.pauses.pause(Scope(topic="t"))
    broker.produce("t", batch(b"x"))
    response: Any = broker.run(waiting)
    assert [(part.error_code, part.records) for part in response.responses[0].partitions] == [(0, b"")]
    injector.pauses.clear()
    assert broker.values("t") == [b"x"]


def test_a_fetch_of_paused_partitions_ends_after_its_time(broker: BrokerDriver, injector: Injector) -> None:
    broker.produce("t", batch(b"x"))
    injector.pauses.pause(Scope())
    waiting = broker.begin(fetch_request("t", max_wait_ms=500, min_bytes=1), 11)
    broker.advance(499)
    assert not waiting.done()
    broker.advance(1)
    assert waiting.done()


def test_partitions_beside_paused_ones_are_read(broker: BrokerDriver, injector: Injector) -> None:
    for index in (0, 1):
        broker.produce("t", batch(b"v%d" % index), index)
    injector.pauses.pause(Scope(topic="t", partition=0))
    response = fetch(broker, 0, -1, 0, 1)
    sizes = {
        part.partition_index: len(part.records or b"") > 0 for topic in response.responses for part in topic.partitions
    }
    assert sizes == {0: False, 1: True}
