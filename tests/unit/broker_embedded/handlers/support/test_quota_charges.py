import asyncio
import math
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from broker_embedded._handlers.support import request_cost
from broker_embedded._handlers.support.request_cost import RequestCost
from broker_embedded._quotas.entities import ClientQuotaEntity
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_client_quotas import OpData
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from spark_kafka_native._protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from spark_kafka_native._protocol.messages.delete_topics import DeleteTopicsRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.broker.driver import BrokerDriver, batch, fetch_request, produce_request, values_in
from tests.support.broker.quotas import alter

ME = {"client-id": "test"}
INT32_MAX = 2**31 - 1
FRAME = 100
"""Bytes of a request beside its records, at most."""


@pytest.fixture
def old_broker(tmp_path: Path) -> Iterator[BrokerDriver]:
    """A broker that passes for 1.1, which throttles before it answers."""
    with BrokerDriver(tmp_path / "old", {"as.version": "1.1"}) as driver:
        yield driver


def test_a_producer_above_its_byte_rate_is_throttled(broker: BrokerDriver) -> None:
    broker.create("t")
    alter(broker, ME, producer_byte_rate=100.0)
    value = batch(b"x" * 1500)
    response = broker.ask(produce_request("t", value), 9)
    assert response.responses[0].partition_responses[0].error_code == 0
    expected_ms = (len(value) + FRAME / 2 - 1000) * 10
    assert abs(response.throttle_time_ms - expected_ms) < FRAME / 2 * 10
    assert broker.cost.wait_ms == response.throttle_time_ms
    assert broker.ask(produce_request("t", value), 9, client_id="other").throttle_time_ms == 0


def test_a_throttle_time_is_cut_at_what_its_field_holds(broker: BrokerDriver) -> None:
    """3 MB at a byte a second are 35 days, more than an int32 of milliseconds."""
    broker.create("t", max_message_bytes="4000000")
    alter(broker, ME, producer_byte_rate=1.0)
    response = broker.ask(produce_request("t", batch(b"x" * 3_000_000)), 9)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert broker.cost.wait_ms == response.throttle_time_ms == INT32_MAX


@pytest.mark.parametrize("rate", [5e-324, 1.7e308, math.inf])
@pytest.mark.parametrize("kind", ["request_percentage", "controller_mutation_rate"])
def test_rates_of_any_size_are_enforced(broker: BrokerDriver, kind: str, rate: float) -> None:
    alter(broker, ME, **{kind: rate})
    topics = (CreatableTopic(name="t", num_partitions=1, replication_factor=1),)
    response = broker.ask(CreateTopicsRequest(topics=topics), 5)
    assert response.topics[0].error_code == 0
    expected_ms = 0 if rate > 1 else 1000 if kind == "request_percentage" else INT32_MAX
    assert response.throttle_time_ms == expected_ms


def test_the_throttle_time_is_0_again_after_a_wait(broker: BrokerDriver) -> None:
    broker.create("t")
    alter(broker, ME, producer_byte_rate=100.0)
    assert broker.ask(produce_request("t", batch(b"x" * 1500)), 9).throttle_time_ms > 0
    broker.advance(12_000)
    assert broker.ask(produce_request("t", batch(b"x")), 9).throttle_time_ms == 0


def test_producers_with_acks_0_are_throttled_too(broker: BrokerDriver) -> None:
    broker.create("t")
    alter(broker, ME, producer_byte_rate=100.0)
    assert broker.run(broker.begin(produce_request("t", batch(b"x" * 2000), acks=0), 9)) is None
    assert broker.cost.wait_ms > 5000


def make(broker: BrokerDriver) -> None:
    """Topic t, on a broker of any release."""
    wanted = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    broker.run(broker.broker.topics.create(wanted))


def filled(broker: BrokerDriver) -> None:
    make(broker)
    for _ in range(5):
        broker.produce("t", batch(b"x" * 1000), version=3)


def test_a_consumer_above_its_byte_rate_gets_an_empty_response_first(broker: BrokerDriver) -> None:
    filled(broker)
    alter(broker, ME, consumer_byte_rate=200.0)
    question = fetch_request("t", max_bytes=1)
    responses = [broker.ask(question, 11) for _ in range(2)]
    assert [len(response.responses) for response in responses] == [1, 0]
    wait_ms = responses[1].throttle_time_ms
    assert 0 < wait_ms == broker.cost.wait_ms
    broker.advance(12_000)
    (topic,) = broker.ask(question, 11).responses
    assert values_in(topic.partitions[0]) == [b"x" * 1000]


def test_a_response_is_never_larger_than_the_quota_allows_without_silence(broker: BrokerDriver) -> None:
    filled(broker)
    alter(broker, ME, consumer_byte_rate=300.0)
    for _ in range(5):
        response = broker.ask(fetch_request("t"), 11)
        if response.responses:
            break
        broker.advance(response.throttle_time_ms)
    assert len(values_in(response.responses[0].partitions[0])) == 2
    others = broker.ask(fetch_request("t"), 11, client_id="other")
    assert len(values_in(others.responses[0].partitions[0])) == 5


def test_a_fetch_session_returns_later_what_throttling_withheld(broker: BrokerDriver) -> None:
    filled(broker)
    opened = broker.ask(fetch_request("t", 5, session_epoch=0), 11)
    alter(broker, ME, consumer_byte_rate=120.0)
    assert broker.ask(fetch_request("t", max_bytes=1), 11).throttle_time_ms == 0
    broker.produce("t", batch(b"new"))
    question = fetch_request("t", 5, session_id=opened.session_id, session_epoch=1)
    withheld = broker.ask(question, 11)
    assert (withheld.session_id, withheld.responses) == (opened.session_id, ())
    assert withheld.throttle_time_ms > 0
    broker.advance(12_000)
    again = broker.ask(fetch_request("t", 5, session_id=opened.session_id, session_epoch=2), 11)
    assert values_in(again.responses[0].partitions[0]) == [b"new"]


def spend(monkeypatch: pytest.MonkeyPatch, ms: int) -> None:
    monkeypatch.setattr(RequestCost, "spent_ns", property(lambda _: ms * 1_000_000))


def test_a_client_above_its_request_percentage_is_throttled(
    broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    spend(monkeypatch, 150)
    alter(broker, ME, request_percentage=1.0)
    # 0.15 s are 15 per cent of a second: 1.5 per cent of the ten that are looked at.
    response = broker.ask(MetadataRequest(topics=()), 9)
    assert response.throttle_time_ms == broker.cost.wait_ms == 1000  # 5,000 but for the bound of one window
    assert broker.ask(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3).throttle_time_ms
    assert broker.ask(MetadataRequest(topics=()), 9, client_id="other").throttle_time_ms == 0


def test_a_version_without_throttle_time_is_made_to_wait_all_the_same(
    broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    spend(monkeypatch, 150)
    alter(broker, ME, request_percentage=1.0)
    broker.ask(ApiVersionsRequest(), 0)
    assert broker.cost.wait_ms == 1000


def test_a_fetch_that_costs_too_much_time_gets_nothing(broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(broker)
    spend(monkeypatch, 1000)
    alter(broker, ME, request_percentage=1.0)
    response = broker.ask(fetch_request("t"), 11)
    assert (response.throttle_time_ms, response.responses) == (1000, ())


def test_request_time_with_acks_0_is_not_counted(broker: BrokerDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create("t")
    spend(monkeypatch, 1000)
    alter(broker, ME, request_percentage=1.0)
    broker.run(broker.begin(produce_request("t", batch(b"x"), acks=0), 9))
    assert broker.cost.wait_ms == 0


async def test_waiting_is_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ns = 0

    def work_for(ns: int) -> None:
        nonlocal now_ns
        now_ns += ns

    monkeypatch.setattr(request_cost, "time", SimpleNamespace(perf_counter_ns=lambda: now_ns))

    cost, gate = RequestCost(), asyncio.Event()

    async def work() -> int:
        work_for(5)
        await gate.wait()
        work_for(7)
        return 7

    task = asyncio.create_task(cost.measured(work()))
    await asyncio.sleep(0)
    work_for(1_000_000)  # another request
    gate.set()
    assert await task == 7
    assert cost.spent_ns == 12


@pytest.mark.parametrize("caught", [False, True])
async def test_measured_work_can_be_cancelled(caught: bool) -> None:
    seen: list[str] = []

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            if not caught:
                raise
        await asyncio.sleep(0)
        return "cleaned up"

    task = asyncio.create_task(RequestCost().measured(work()))
    await asyncio.sleep(0)
    task.cancel()
    (result,) = await asyncio.gather(task, return_exceptions=True)
    assert seen == ["cancelled"]
    assert result == "cleaned up" if caught else isinstance(result, asyncio.CancelledError)


def test_work_that_fails_fails() -> None:
    async def work() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(RequestCost().measured(work()))


def create(broker: BrokerDriver, name: str, partitions: int, version: int = 7) -> tuple[ErrorCode, int]:
    wanted = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    response = broker.ask(CreateTopicsRequest(topics=(wanted,)), version)
    return ErrorCode.of(response.topics[0].error_code), response.throttle_time_ms


def test_a_client_above_its_mutation_rate_is_refused(broker: BrokerDriver) -> None:
    alter(broker, ME, controller_mutation_rate=1.0)
    assert create(broker, "a", 16) == (ErrorCode.NONE, 0)
    code, wait_ms = create(broker, "b", 1)
    assert code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert wait_ms == 5000
    assert "b" not in broker.broker.image.topics
    widened = broker.ask(
        CreatePartitionsRequest(topics=(CreatePartitionsTopic(name="a", count=17, assignments=None),)), 3
    )
    assert ErrorCode.of(widened.results[0].error_code) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    deleted = broker.ask(DeleteTopicsRequest(topic_names=("a",)), 5)
    assert ErrorCode.of(deleted.responses[0].error_code) is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    broker.advance(5000)
    assert create(broker, "b", 1) == (ErrorCode.NONE, 0)


def test_old_versions_are_throttled_instead_of_refused(broker: BrokerDriver) -> None:
    alter(broker, ME, controller_mutation_rate=1.0)
    assert create(broker, "a", 16, version=5) == (ErrorCode.NONE, 5000)
    assert create(broker, "b", 1, version=5) == (ErrorCode.NONE, 6000)
    assert broker.cost.wait_ms == 6000


def test_topics_that_make_themselves_are_counted_too(broker: BrokerDriver) -> None:
    alter(broker, ME, controller_mutation_rate=1.0)
    names = [f"auto-{number}" for number in range(14)]
    codes = []
    for name in names:
        response = broker.ask(MetadataRequest(topics=(MetadataRequestTopic(name=name),)), 9)
        codes.append(ErrorCode.of(response.topics[0].error_code))
        assert response.throttle_time_ms == 0
    assert codes == [ErrorCode.NONE] * 12 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 2
    broker.advance(2000)
    response = broker.ask(MetadataRequest(topics=(MetadataRequestTopic(name=names[-1]),)), 9)
    assert response.topics[0].error_code == 0


def set_quota(broker: BrokerDriver, **values: float) -> None:
    """Set a quota on a release that has no request for it."""
    ops = [OpData(key=key, value=value) for key, value in values.items()]
    entity = ClientQuotaEntity.of([("client-id", "test")])
    assert broker.run(broker.broker.quotas.alter([(entity, ops)], validate_only=False)) == {entity: None}


def test_an_old_release_keeps_the_response_for_as_long(old_broker: BrokerDriver) -> None:
    make(old_broker)
    set_quota(old_broker, producer_byte_rate=100.0)
    task = old_broker.pending(produce_request("t", batch(b"x" * 1400)), 3)
    assert old_broker.broker.partitions.get("t", 0).log.log_end_offset == 1
    old_broker.advance(4000)
    assert not task.done()
    old_broker.advance(2000)
    response = old_broker.response(task)
    assert 4000 < response.throttle_time_ms < 6000
    assert old_broker.cost.wait_ms == 0


def test_an_old_release_sends_the_records_that_it_kept(old_broker: BrokerDriver) -> None:
    filled(old_broker)
    set_quota(old_broker, consumer_byte_rate=100.0)
    task = old_broker.pending(fetch_request("t", max_bytes=1), 5)
    old_broker.advance(10_000)
    response = old_broker.response(task)
    assert response.throttle_time_ms > 0
    assert values_in(response.responses[0].partitions[0]) == [b"x" * 1000]


def test_a_stop_lets_go_what_an_old_release_keeps(old_broker: BrokerDriver) -> None:
    make(old_broker)
    set_quota(old_broker, producer_byte_rate=1.0)
    task = old_broker.pending(produce_request("t", batch(b"x" * 1400)), 3)
    old_broker.broker.delayed.release()
    assert old_broker.response(task).responses[0].partition_responses[0].base_offset == 0
