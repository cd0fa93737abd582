import pytest

from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.producer_id import ProducerIdAndEpoch
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._spark.exactly_once.decision import Decision, Handle, decision_records
from spark_kafka_native._spark.exactly_once.effects import (
    DecisionLog,
    Describe,
    Described,
    End,
    EndTransactions,
    ReadDecisions,
    WrittenRange,
)
from spark_kafka_native._spark.exactly_once.ending import (
    TAIL,
    HandleStates,
    commit_handles,
    driver_error,
    look_up,
    read_last,
)
from spark_kafka_native._spark.exactly_once.errors import ErrorKind, ExactlyOnceError
from tests.support.exactly_once.driver import NAMES, QUERY

HANDLES = tuple(
    Handle(
        f"orders.1.0.0.{number}.0",
        ProducerIdAndEpoch(10 + number, 0),
        (WrittenRange(TopicPartition("t", number), 5, 9),),
    )
    for number in range(3)
)
DECISION = Decision(ProducerIdAndEpoch(1, 0), QUERY, 0, HANDLES)


def test_tail_of_the_decisions_is_read_first() -> None:
    steps = read_last(NAMES)
    assert next(steps) == ReadDecisions("orders.decisions", TAIL)
    with pytest.raises(StopIteration) as stop:
        steps.send(DecisionLog(decision_records(DECISION), whole=False))
    assert stop.value.value == DECISION


def test_whole_log_is_read_if_its_tail_is_too_short() -> None:
    steps = read_last(NAMES)
    next(steps)
    assert steps.send(DecisionLog(decision_records(DECISION)[1:], whole=False)) == ReadDecisions(
        "orders.decisions", None
    )
    with pytest.raises(StopIteration) as stop:
        steps.send(DecisionLog(decision_records(DECISION), whole=True))
    assert stop.value.value == DECISION


def test_commit_without_handles_sends_no_request() -> None:
    assert list(commit_handles(NAMES, Decision(ProducerIdAndEpoch(1, 0), QUERY, 0))) == []


def described(state: str, producer: ProducerIdAndEpoch) -> Described:
    return Described(state, producer, 0, 0)


def test_states_of_decided_transactions_are_looked_up() -> None:
    steps = look_up(HANDLES)
    assert next(steps) == Describe(tuple(handle.transactional_id for handle in HANDLES))
    with pytest.raises(StopIteration) as stop:
        steps.send(
            (
                described("CompleteCommit", ProducerIdAndEpoch(10, 1)),
                described("Ongoing", ProducerIdAndEpoch(11, 0)),
                None,
            )
        )
    assert stop.value.value == HandleStates(HANDLES[:1], HANDLES[1:2], HANDLES[2:])
    again = look_up(HANDLES)
    next(again)
    with pytest.raises(StopIteration) as stop:
        again.send(
            (
                described("PrepareAbort", ProducerIdAndEpoch(10, 1)),
                described("Ongoing", ProducerIdAndEpoch(11, 1)),
                described("PrepareCommit", ProducerIdAndEpoch(12, 1)),
            )
        )
    assert stop.value.value == HandleStates(HANDLES[2:], (), HANDLES[:2])


REFUSED = KafkaError(ErrorCode.PRODUCER_FENCED)
NO_RESPONSE = KafkaError(ErrorCode.REQUEST_TIMED_OUT)


@pytest.mark.parametrize(
    ("error", "found", "kind"),
    [
        (REFUSED, described("CompleteAbort", ProducerIdAndEpoch(11, 1)), ErrorKind.LOST),
        (REFUSED, described("Empty", ProducerIdAndEpoch(11, 1)), ErrorKind.LOST),
        (REFUSED, described("CompleteCommit", ProducerIdAndEpoch(99, 1)), ErrorKind.LOST),
        (REFUSED, None, ErrorKind.LOST),
        (REFUSED, described("CompleteCommit", ProducerIdAndEpoch(11, 1)), None),
        (NO_RESPONSE, described("CompleteCommit", ProducerIdAndEpoch(11, 1)), None),
        (NO_RESPONSE, described("PrepareCommit", ProducerIdAndEpoch(11, 1)), None),
        (NO_RESPONSE, described("Ongoing", ProducerIdAndEpoch(11, 0)), ErrorKind.UNKNOWN),
        (NO_RESPONSE, None, ErrorKind.UNKNOWN),
    ],
)
def test_transaction_with_an_end_txn_error_is_looked_up(
    error: KafkaError, found: Described | None, kind: ErrorKind | None
) -> None:
    steps = commit_handles(NAMES, DECISION)
    assert next(steps) == EndTransactions(
        tuple(End(handle.transactional_id, handle.producer) for handle in HANDLES), commit=True
    )
    assert steps.send((ProducerIdAndEpoch(10, 1), error, ProducerIdAndEpoch(12, 1))) == Describe(("orders.1.0.0.1.0",))
    if kind is None:
        with pytest.raises(StopIteration):
            steps.send((found,))
        return
    with pytest.raises(ExactlyOnceError) as caught:
        steps.send((found,))
    assert caught.value.kind is kind
    if kind is ErrorKind.LOST:
        assert "transactions of it (1 of 3)" in str(caught.value)
        assert "t-1 offsets 5 to 8 are not readable" in str(caught.value)


def test_lost_takes_precedence_over_unknown() -> None:
    steps = commit_handles(NAMES, DECISION)
    next(steps)
    steps.send((NO_RESPONSE, REFUSED, ProducerIdAndEpoch(12, 1)))
    with pytest.raises(ExactlyOnceError, match=r"\.LOST\] "):
        steps.send((None, described("CompleteAbort", ProducerIdAndEpoch(11, 1))))


def test_driver_error_is_fenced_only_if_refused() -> None:
    assert driver_error(NAMES, NO_RESPONSE) is NO_RESPONSE
    fenced = driver_error(NAMES, REFUSED)
    assert isinstance(fenced, ExactlyOnceError)
    assert "another run of the query has fenced this one" in str(fenced)
    over = driver_error(NAMES, KafkaError(ErrorCode.INVALID_TXN_STATE))
    assert "its transaction has ended" in str(over)
