import pytest

from spark_kafka_native._client.retry import Backoff, FailedAttempts, give_up, retry
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.errors import BrokerUnreachable, ConnectionLost, PropertyReason, RequestTimeout
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from tests.support.refusals import refused


def test_pauses_double_up_to_their_bound_off_by_a_fifth_at_most() -> None:
    for _ in range(50):
        backoff = Backoff(100, 1_000)
        pauses = [backoff.next_ms() for _ in range(8)]
        for pause, nominal in zip(pauses, [100, 200, 400, 800, 1000, 1000, 1000, 1000], strict=True):
            assert 0.8 * nominal <= pause <= min(1.2 * nominal, 1000)


def test_pauses_differ() -> None:
    assert len({Backoff(100, 1_000).next_ms() for _ in range(20)}) > 10


def test_reset_begins_again() -> None:
    backoff = Backoff(100, 10_000)
    for _ in range(5):
        backoff.next_ms()
    backoff.reset()
    assert backoff.next_ms() <= 120


def test_a_bound_below_the_first_pause_wins() -> None:
    assert Backoff(500, 50).next_ms() <= 50
    assert Backoff(0, 1_000).next_ms() == 0


def failing(*errors: KafkaError) -> "list[KafkaError]":
    return list(errors)


def test_retriable_errors_are_tried_again() -> None:
    errors = failing(KafkaError(ErrorCode.NOT_CONTROLLER), KafkaError(ErrorCode.REQUEST_TIMED_OUT))

    def action() -> str:
        if errors:
            raise errors.pop()
        return "done"

    assert retry(action, Deadline.after_ms(5_000), Backoff(1, 1)) == "done"


def test_other_errors_are_not() -> None:
    errors = failing(KafkaError(ErrorCode.INVALID_REQUEST), KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED))

    def action() -> None:
        raise errors.pop()

    with pytest.raises(KafkaError, match=r"\(TOPIC_AUTHORIZATION_FAILED, "):
        retry(action, Deadline.after_ms(5_000), Backoff(1, 1))
    assert len(errors) == 1


def test_the_last_error_is_raised_when_time_is_up() -> None:
    tries = 0

    def action() -> None:
        nonlocal tries
        tries += 1
        raise KafkaError(ErrorCode.NOT_CONTROLLER, str(tries))

    assert refused(retry, action, Deadline.after_ms(30), Backoff(5, 5)).detail == str(tries)
    assert tries > 1


@pytest.mark.parametrize("last", [ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT])
def test_an_error_of_a_broker_is_raised_instead_of_a_timeout(last: ErrorCode) -> None:
    errors = failing(KafkaError(last), KafkaError(ErrorCode.NOT_CONTROLLER))
    deadline = Deadline.after_ms(60_000)

    def action() -> None:
        error = errors.pop()
        if not errors:
            deadline._at = 0.0
        raise error

    error = refused(retry, action, deadline, Backoff(1, 1))
    assert error.code is ErrorCode.NOT_CONTROLLER
    assert isinstance(error.__cause__, KafkaError)


def test_of_two_transport_errors_the_last_counts() -> None:
    with pytest.raises(KafkaError, match=r"\(REQUEST_TIMED_OUT, "):
        give_up(KafkaError(ErrorCode.NETWORK_EXCEPTION), KafkaError(ErrorCode.REQUEST_TIMED_OUT))


@pytest.mark.parametrize(("is_last", "reason"), [(False, "no response to Metadata within 5 ms"), (True, "refused")])
def test_the_last_attempt_does_not_replace_the_reason_of_the_one_before(is_last: bool, reason: str) -> None:
    one, other, third = HostPort("a", 1), HostPort("b", 2), HostPort("c", 3)
    tried = FailedAttempts()
    tried.add(one, BrokerUnreachable({one: "refused"}), is_last=False)
    tried.add(one, RequestTimeout(one, "Metadata", 5), is_last=is_last)
    tried.add(other, ConnectionLost(other, "closed"), is_last=True)
    error = tried.error("Metadata", [one, other, third], [one, other, third], "bootstrap.servers")
    assert error.tried == {one: reason, other: "closed", third: "not tried, no time was left"}


def test_all_brokers_that_could_not_be_reached_are_named() -> None:
    one, other = HostPort("a", 1), HostPort("b", 2)
    with pytest.raises(BrokerUnreachable) as caught:
        give_up(
            BrokerUnreachable({one: PropertyReason("needs TLS")}, "for x"),
            BrokerUnreachable({one: "no time", other: "no time"}, "for y", bootstrap="bootstrap.servers"),
        )
    assert str(caught.value) == "no broker could be reached for y (a:1: needs TLS; b:2: no time)"


def test_broker_unreachable_has_the_error_before_it() -> None:
    silence = RequestTimeout(HostPort("a", 1), "Fetch", 200)
    last = BrokerUnreachable({HostPort("a", 1): "no time"}, "for Metadata", bootstrap="bootstrap.servers")
    with pytest.raises(BrokerUnreachable) as caught:
        give_up(silence, last)
    assert str(caught.value) == (
        "no broker could be reached for Metadata (a:1: no time), after a:1: no response to Fetch within 200 ms; check "
        "bootstrap.servers"
    )
