from collections.abc import Sequence

import pytest

from spark_kafka_native._client.cluster.cluster import Cluster
from spark_kafka_native._client.cluster.coordinators import at_coordinator, at_coordinators, look_up_coordinator
from spark_kafka_native._client.cluster.known_coordinators import CoordinatorType
from spark_kafka_native._net.blocking import Connection
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.support.scripted.cluster import KAFKA_2_1, KAFKA_4_3, ScriptedCluster
from tests.support.scripted.fixtures import scripted_brokers
from tests.support.scripted.steps import Drop, Refuse

TRANSACTION = CoordinatorType.TRANSACTION


brokers = scripted_brokers(brokers=2)


def soon() -> Deadline:
    return Deadline.after_ms(30_000)


def lookups(brokers: ScriptedCluster) -> int:
    return len(brokers.requests(FindCoordinatorRequest))


def port(connection: Connection, _timeout_ms: float) -> int:
    return connection.address.port


def test_a_coordinator_is_looked_up_once(brokers: ScriptedCluster, cluster: Cluster) -> None:
    for _ in range(3):
        assert at_coordinator(cluster, TRANSACTION, "t", port, soon()) == brokers.brokers[1].port
    (asked,) = brokers.requests(FindCoordinatorRequest)
    assert (asked.key, asked.key_type) == ("t", 1)
    assert at_coordinator(cluster, CoordinatorType.GROUP, "t", port, soon()) == brokers.brokers[1].port
    assert lookups(brokers) == 2
    cluster.close()
    at_coordinator(cluster, TRANSACTION, "t", port, soon())
    assert lookups(brokers) == 3


@pytest.mark.parametrize(
    ("code", "asked"),
    [
        (ErrorCode.NOT_COORDINATOR, 2),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, 2),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 1),
    ],
)
def test_retriable_errors_are_retried_at_the_right_broker(
    brokers: ScriptedCluster, cluster: Cluster, code: ErrorCode, asked: int
) -> None:
    tries: list[int] = []

    def action(connection: Connection, _timeout_ms: float) -> str:
        tries.append(connection.address.port)
        if len(tries) == 1:
            raise KafkaError(code, "once")
        return "done"

    assert at_coordinator(cluster, TRANSACTION, "t", action, soon()) == "done"
    assert (len(tries), lookups(brokers)) == (2, asked)


def test_the_new_coordinator_is_found_when_the_old_one_is_unreachable(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    assert at_coordinator(cluster, TRANSACTION, "t", port, soon()) == brokers.brokers[1].port
    brokers.state.coordinator = 2
    brokers.brokers[1].is_listed = False
    brokers.brokers[1].stop()
    assert at_coordinator(cluster, TRANSACTION, "t", port, soon()) == brokers.brokers[2].port


def test_a_lookup_is_tried_again_and_its_refusal_names_the_key(brokers: ScriptedCluster, cluster: Cluster) -> None:
    brokers.script(FindCoordinatorRequest, Refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE), Drop())
    assert at_coordinator(cluster, TRANSACTION, "t", port, soon()) == brokers.brokers[1].port
    brokers.script(FindCoordinatorRequest, Refuse(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match="coordinator of transactional id other: not authorized"):
        look_up_coordinator(cluster, TRANSACTION, "other", soon())
    brokers.script(FindCoordinatorRequest, Refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaError, match="coordinator of group other"):
        at_coordinator(cluster, CoordinatorType.GROUP, "other", port, soon())


def test_errors_that_are_not_retriable_are_raised_at_once(cluster: Cluster) -> None:
    tries: list[int] = []

    def action(_connection: Connection, _timeout_ms: float) -> None:
        tries.append(1)
        raise KafkaError(ErrorCode.PRODUCER_FENCED, "t")

    with pytest.raises(KafkaError, match="t: a newer producer"):
        at_coordinator(cluster, TRANSACTION, "t", action, soon())
    assert tries == [1]


def test_a_retriable_error_is_raised_after_the_deadline(cluster: Cluster) -> None:
    def action(_connection: Connection, _timeout_ms: float) -> None:
        raise KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "busy")

    at_coordinator(cluster, TRANSACTION, "t", port, soon())
    with pytest.raises(KafkaError, match="busy"):
        at_coordinator(cluster, TRANSACTION, "t", action, Deadline.after_ms(600))


@pytest.mark.parametrize(("versions", "asked"), [(KAFKA_4_3, 1), (KAFKA_2_1, 5)], ids=["4.3", "2.1"])
def test_many_coordinators_are_looked_up_with_one_request(versions: dict[int, tuple[int, int]], asked: int) -> None:
    keys = [f"k{number}" for number in range(5)]
    rounds: list[Sequence[str]] = []

    def action(connection: Connection, found: Sequence[str], _timeout_ms: float) -> dict[str, str | KafkaError]:
        rounds.append(found)
        results: dict[str, str | KafkaError] = {key: key.upper() for key in found}
        if len(rounds) == 1:
            results["k1"] = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS, "busy")
            results["k2"] = KafkaError(ErrorCode.PRODUCER_FENCED, "gone")
        return results

    with ScriptedCluster(brokers=2, versions=versions) as brokers, Cluster(brokers.config()) as cluster:
        found = at_coordinators(cluster, TRANSACTION, [*keys, "k0"], action, soon())
        assert lookups(brokers) == asked
    assert rounds == [keys, ["k1"]]
    assert list(found) == keys
    refused = found.pop("k2")
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.PRODUCER_FENCED
    assert found == {key: key.upper() for key in keys if key != "k2"}


def test_keys_without_a_coordinator_have_an_error_after_the_deadline(
    brokers: ScriptedCluster, cluster: Cluster
) -> None:
    brokers.script(FindCoordinatorRequest, *[Refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)] * 1000)

    def action(_connection: Connection, keys: Sequence[str], _timeout_ms: float) -> dict[str, str | KafkaError]:
        raise AssertionError(keys)

    found = at_coordinators(cluster, TRANSACTION, ["a", "b"], action, Deadline.after_ms(600))
    assert [type(result) for result in found.values()] == [KafkaError, KafkaError]
    codes = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT}
    assert {result.code for result in found.values() if isinstance(result, KafkaError)} <= codes


def test_a_lost_connection_to_one_of_many_coordinators_is_replaced(brokers: ScriptedCluster, cluster: Cluster) -> None:
    tries: list[int] = []

    def action(_connection: Connection, keys: Sequence[str], _timeout_ms: float) -> dict[str, str | KafkaError]:
        tries.append(len(keys))
        if len(tries) == 1:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "lost")
        return dict.fromkeys(keys, "done")

    assert at_coordinators(cluster, TRANSACTION, ["a", "b"], action, soon()) == {"a": "done", "b": "done"}
    assert (tries, lookups(brokers)) == ([2, 2], 2)
    assert at_coordinators(cluster, TRANSACTION, [], action, soon()) == {}
