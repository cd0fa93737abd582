import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from dirty_equals import IsInt

from broker_embedded._broker import DataDirectoryError
from broker_embedded._config.settings import SettingError
from broker_embedded._metadata.config_changes import ResourceType
from broker_embedded._server.listener import ListenError
from broker_embedded.testing import BrokerProcess, BrokerStartError, EmbeddedBroker, ErrorCode, FieldError, KafkaError
from spark_kafka_native._protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from spark_kafka_native._protocol.messages.init_producer_id import InitProducerIdRequest
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from tests.support.broker.driver import batch, fetch_request, idempotent, produce_request, values_in
from tests.support.refusals import refused
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.waiting import eventually

TestBroker: TypeAlias = EmbeddedBroker | BrokerProcess
KINDS = (EmbeddedBroker, BrokerProcess)


@pytest.fixture(params=KINDS, ids=["thread", "process"])
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TestBroker]:
    made: TestBroker = request.param(tmp_path / "data", topics={"t": 3})
    with made:
        yield made


@pytest.fixture(scope="module", params=KINDS, ids=["thread", "process"])
def controlled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    """A broker that several tests share, which leave no fault in it."""
    made: TestBroker = request.param(tmp_path_factory.mktemp("data"), topics={"t": 3}, control=True)
    with made:
        yield made


@pytest.fixture(autouse=True)
def _no_faults_are_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "controlled" in request.fixturenames:
        request.getfixturevalue("controlled").faults.clear()


@pytest.fixture
def process(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path / "data", topics={"t": 1}) as made:
        yield made


@pytest.mark.parametrize(("given", "delay_ms"), [({}, "0"), ({"group.initial.rebalance.delay.ms": 7}, "7")])
@pytest.mark.parametrize("kind", KINDS, ids=["thread", "process"])
def test_groups_begin_at_once_unless_it_is_set(kind: type[TestBroker], given: dict[str, object], delay_ms: str) -> None:
    key = "group.initial.rebalance.delay.ms"
    resource = DescribeConfigsResource(resource_type=ResourceType.BROKER, resource_name="1", configuration_keys=(key,))
    with kind(settings=given) as broker, RawClient(broker.bootstrap_servers) as client:
        (result,) = client.ask(DescribeConfigsRequest(resources=(resource,)), 4).results
        assert [(config.name, config.value) for config in result.configs] == [(key, delay_ms)]


def partitions(broker: TestBroker) -> dict[str, int]:
    with RawClient(broker.bootstrap_servers) as client:
        topics = client.ask(MetadataRequest(topics=None), 12).topics
    return {topic.name or "": len(topic.partitions) for topic in topics}


def produce(broker: TestBroker, records: bytearray) -> int:
    with RawClient(broker.bootstrap_servers) as client:
        response = client.ask(produce_request("t", records), 9).responses[0].partition_responses[0]
    assert response.error_code == 0
    return response.base_offset


def code_of_produce(broker: TestBroker) -> int:
    with RawClient(broker.bootstrap_servers) as client:
        response = client.ask(produce_request("t", batch(b"x")), 9)
    return response.responses[0].partition_responses[0].error_code


def values(broker: TestBroker) -> list[bytes]:
    found: list[bytes] = []
    with RawClient(broker.bootstrap_servers) as client:
        while True:
            response = client.ask(fetch_request("t", len(found)), 11)
            new = values_in(response.responses[0].partitions[0])
            if not new:
                return found
            found += new


def test_topics_and_records_survive_a_restart_on_the_same_port(broker: TestBroker) -> None:
    address = broker.bootstrap_servers
    produce(broker, batch(b"x"))
    broker.create_topic("u", 2, {"retention.ms": "-1"})
    broker.restart()
    assert broker.bootstrap_servers == address
    assert partitions(broker) == {"t": 3, "u": 2}
    broker.kill()
    broker.start()
    assert broker.bootstrap_servers == address
    assert values(broker) == [b"x"]


def test_a_topic_that_cannot_be_made(broker: TestBroker) -> None:
    assert refused(broker.create_topic, "t").code is ErrorCode.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError, match=r"no\.such\.setting"):
        broker.create_topic("u", configs={"no.such.setting": "1"})


def test_starting_and_stopping_twice_does_nothing(broker: TestBroker) -> None:
    broker.start()
    broker.stop()
    broker.stop()
    broker.start()
    assert partitions(broker) == {"t": 3}


@pytest.mark.parametrize("kind", KINDS)
def test_a_temporary_directory_goes_with_the_broker(kind: type[TestBroker]) -> None:
    with kind() as broker:
        directory = broker.log_directory
        broker.create_topic("t")
        assert (directory / "t-0").is_dir()
    assert not directory.exists()


@pytest.mark.parametrize("kind", KINDS, ids=["thread", "process"])
def test_a_broker_that_is_dropped_before_its_start_leaves_no_directory(kind: type[TestBroker]) -> None:
    broker = kind()
    directory, dropped = broker.log_directory, weakref.ref(broker)
    assert directory.is_dir()
    del broker
    gc.collect()
    assert dropped() is None
    assert not directory.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_setting_is_refused_at_once(kind: type[TestBroker], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"did you mean num\.partitions"):
        kind(tmp_path, settings={"num.partition": 3})


@pytest.mark.parametrize("topics", ["visits", {"visits": "3"}, {1: 3}])
def test_topics_that_are_no_mapping_are_refused(topics: Any) -> None:
    with pytest.raises(SettingError, match=r"topics.* is not a mapping of names to numbers of partitions"):
        EmbeddedBroker(topics=topics)


@pytest.mark.parametrize("kind", KINDS)
def test_a_context_that_cannot_be_entered_leaves_nothing(kind: type[TestBroker]) -> None:
    broker = kind(topics={"bad/name": 1})
    with pytest.raises(KafkaError, match="characters"), broker:
        raise AssertionError("it should not have been entered")
    assert not broker.log_directory.exists()
    with pytest.raises(ConnectionRefusedError):
        RawClient(broker.bootstrap_servers)


@pytest.mark.parametrize("kind", KINDS)
def test_a_control_port_for_other_machines_is_refused(kind: type[TestBroker], tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"control.*other machines"):
        kind(tmp_path, control="0.0.0.0:0")
    with kind(tmp_path, control="127.0.0.1:0") as broker:
        assert broker.control_url.startswith("http://127.0.0.1:")


def test_before_the_start_there_is_no_address(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = EmbeddedBroker(tmp_path).bootstrap_servers


def test_a_failing_start_is_raised_to_who_started(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data") as broker:
        port = broker.bootstrap_servers
        with pytest.raises(DataDirectoryError, match="in use by another broker"):
            EmbeddedBroker(tmp_path / "data").start()
        with pytest.raises(ListenError, match="Address already in use"):
            EmbeddedBroker(tmp_path / "other", settings={"listeners": f"PLAINTEXT://{port}"}).start()
        with pytest.raises(BrokerStartError, match=r"ended with status 1: .*in use by another broker"):
            BrokerProcess(tmp_path / "data").start()


def test_an_embedded_broker_leaves_no_thread(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with EmbeddedBroker(tmp_path, topics={"t": 1}):
        assert set(threading.enumerate()) > before
    assert set(threading.enumerate()) == before


def test_faults_apply_until_they_are_spent_or_removed(controlled: TestBroker) -> None:
    fault = controlled.faults.fail("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER, times=2, topic="t", partition=0)
    assert [code_of_produce(controlled) for _ in range(3)] == [6, 6, 0]
    assert (fault.calls, fault.hits, fault.is_spent) == (3, 2, True)
    with controlled.faults.drop("Produce", when="before"), pytest.raises(ConnectionError):
        code_of_produce(controlled)
    assert code_of_produce(controlled) == 0
    assert [each.id for each in controlled.faults] == [fault.id]
    fault.remove()
    with pytest.raises(LookupError, match=f"no fault {fault.id}"):
        _ = fault.hits


def test_invalid_faults_and_apis_are_value_errors(controlled: TestBroker) -> None:
    with pytest.raises(FieldError, match="api: 'Prodcue' is not an API of Kafka; did you mean Produce"):
        controlled.faults.drop("Prodcue")
    with pytest.raises(ValueError, match="time: a fault of the kind drop has no such field"):
        controlled.faults.drop("Produce", time=3)
    with pytest.raises(ValueError, match="api: 'Prduce' is not an API of Kafka; did you mean Produce"):
        controlled.requests("Prduce")


def test_received_requests_are_recorded(controlled: TestBroker) -> None:
    controlled.forget_requests()
    with controlled.faults.delay("Produce", ms=0) as fault:
        produce(controlled, batch(b"seen"))
    partitions(controlled)
    (recorded,) = controlled.requests("Produce", client_id="raw")
    assert recorded.request == produce_request("t", batch(b"seen"))
    assert (recorded.version, recorded.faults) == (9, (fault.id,))
    assert controlled.request_counts() == {"Produce": 1, "Metadata": 1}
    assert [each.api for each in controlled.requests(after=recorded.number)] == ["Metadata"]
    controlled.forget_requests()
    assert controlled.requests() == []
    assert controlled.request_counts() == {}


def test_leaders_move_and_fetches_pause(controlled: TestBroker) -> None:
    epoch = controlled.faults.move_leader("t")
    assert controlled.faults.move_leader("t", 0) == epoch + 1
    assert code_of_produce(controlled) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    partitions(controlled)
    assert code_of_produce(controlled) == 0
    before = values(controlled)
    controlled.faults.pause_fetches("t", 0)
    assert values(controlled) == []
    controlled.faults.resume_fetches("t", 0)
    assert values(controlled) == before
    with pytest.raises(KafkaError, match="no partition nowhere-0"):
        controlled.faults.move_leader("nowhere")


def test_time_passes_at_once(controlled: TestBroker) -> None:
    controlled.create_topic("old", configs={"retention.ms": "60000", "segment.bytes": "1048576"})
    with RawClient(controlled.bootstrap_servers) as client:
        client.ask(produce_request("old", batch(b"x", timestamp_ms=controlled.now_ms())), 9)
        controlled.advance(minutes=30)
        assert client.is_closed()  # it was idle for longer than connections.max.idle.ms
    with RawClient(controlled.bootstrap_servers) as client:
        response = client.ask(fetch_request("old", 1), 11).responses[0].partitions[0]
    assert (response.error_code, response.log_start_offset) == (0, 1)


def test_topics_can_be_deleted(controlled: TestBroker) -> None:
    controlled.create_topic("short", 2)
    assert controlled.topics()["short"] == 2
    controlled.delete_topic("short")
    assert "short" not in controlled.topics()
    assert refused(controlled.delete_topic, "short").code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_sigterm_ends_the_process_in_order(process: BrokerProcess) -> None:
    produce(process, batch(b"x"))
    with RawClient(process.bootstrap_servers) as idle:
        assert process.terminate() == 0
        assert idle.is_closed()
    assert (process.log_directory / ".kafka_cleanshutdown").exists()
    process.start()
    assert "was not closed cleanly" not in process.output
    assert values(process) == [b"x"]


def test_a_stop_answers_what_is_waiting(tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path, topics={"t": 1}, control=True) as broker,
        RawClient(broker.bootstrap_servers) as client,
    ):
        client.send(request_bytes(fetch_request("t", max_wait_ms=600_000, min_bytes=1), 11))
        eventually(lambda: len(broker.requests("Fetch")), IsInt(gt=0))
        assert broker.terminate() == 0
        assert len(client.frame()) > 0


@pytest.mark.kill
def test_every_acknowledged_record_is_there_once_after_kills(process: BrokerProcess) -> None:
    ids: list[int] = []
    acknowledged: list[bytes] = []
    for round_number in range(4):
        with RawClient(process.bootstrap_servers) as client:
            response = client.ask(InitProducerIdRequest(transactional_id=None), 4)
            ids.append(response.producer_id)
            for sequence in range(30):
                value = b"%d-%d" % (round_number, sequence)
                records = idempotent(batch(value), producer_id=response.producer_id, sequence=sequence)
                produced = client.ask(produce_request("t", records), 9).responses[0].partition_responses[0]
                assert produced.error_code == 0
                acknowledged.append(value)
            # The last one is in doubt: sent, and the broker killed before its response was read.
            last = idempotent(batch(b"%d-last" % round_number), producer_id=response.producer_id, sequence=30)
            client.send(request_bytes(produce_request("t", last), 9))
            process.kill()
        process.restart()
        assert "was not closed cleanly" in process.output
        assert produce(process, idempotent(batch(b"%d-last" % round_number), producer_id=ids[-1], sequence=30)) == len(
            acknowledged
        )
        acknowledged.append(b"%d-last" % round_number)
        # And what was acknowledged long ago is still known as a repetition.
        again = idempotent(batch(b"%d-29" % round_number), producer_id=ids[-1], sequence=29)
        assert produce(process, again) == len(acknowledged) - 2
    assert values(process) == acknowledged
    assert len(set(ids)) == len(ids)


@pytest.mark.kill
def test_kills_while_topics_are_made_leave_whole_topics(process: BrokerProcess) -> None:
    made: set[str] = set()
    for round_number in range(4):
        killer = threading.Timer(0.02 + 0.03 * round_number, process.kill)
        killer.start()
        name = ""
        try:
            for number in range(10_000):
                name = f"topic-{round_number}-{number}"
                process.create_topic(name, 3)
                made.add(name)
        except (OSError, RuntimeError):
            pass
        killer.join()
        process.restart()
        found = partitions(process)
        assert made <= found.keys() <= made | {"t", name}
        assert {count for topic, count in found.items() if topic != "t"} <= {3}
        made |= found.keys() - {"t"}
        directories = {path.name for path in process.log_directory.iterdir() if path.is_dir()}
        assert directories == {f"{topic}-{index}" for topic, count in found.items() for index in range(count)}
