import socket
import time
from collections.abc import Iterator

import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.dialing import MAX_PREFERRED, Target, first_to_succeed, preferred
from spark_kafka_native._net.errors import AuthenticationFailed, BrokerUnreachable, PropertyReason

BROKER = HostPort("broker.test", 9092)
TARGETS = [
    Target(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 9092)) for host in ("192.0.2.1", "192.0.2.2", "192.0.2.3")
]


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    preferred.clear()
    yield
    preferred.clear()


class Dialing:
    """Tries that take the time they are given, save those to ``listening`` addresses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *listening: Target) -> None:
        self.now = 1_000.0
        self.tried: list[tuple[str, int]] = []
        self._listening = listening
        monkeypatch.setattr(time, "monotonic", lambda: self.now)

    def __call__(self, target: Target, deadline: Deadline) -> str:
        host: str = target.where[0]
        self.tried.append((host, round(deadline.remaining_ms)))
        if target in self._listening:
            return host
        self.now += deadline.remaining_ms / 1000
        raise BrokerUnreachable({BROKER: "no connection within the time allowed"})


@pytest.mark.parametrize(("time_left_ms", "share_ms"), [(60_000, 10_000), (12_000, 4_000)])
def test_every_address_has_the_connection_setup_timeout_or_its_share_of_the_deadline(
    monkeypatch: pytest.MonkeyPatch, time_left_ms: int, share_ms: int
) -> None:
    dialing = Dialing(monkeypatch, TARGETS[2])
    assert first_to_succeed(BROKER, TARGETS, dialing, 10_000, Deadline.after_ms(time_left_ms)) == "192.0.2.3"
    assert dialing.tried == [("192.0.2.1", share_ms), ("192.0.2.2", share_ms), ("192.0.2.3", share_ms)]


def test_no_share_is_too_short_for_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [*TARGETS[:2]] * 10
    dialing = Dialing(monkeypatch)
    with pytest.raises(BrokerUnreachable):
        first_to_succeed(BROKER, many, dialing, 10_000, Deadline.after_ms(3_000))
    assert [share for _, share in dialing.tried[:3]] == [1_000] * 3


def test_without_a_deadline_there_is_time_for_all_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    dialing = Dialing(monkeypatch, TARGETS[1])
    assert first_to_succeed(BROKER, TARGETS, dialing, 10_000, None) == "192.0.2.2"
    assert dialing.tried == [("192.0.2.1", 10_000), ("192.0.2.2", 10_000)]


def test_the_error_names_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    dialing = Dialing(monkeypatch)
    with pytest.raises(BrokerUnreachable) as caught:
        first_to_succeed(BROKER, TARGETS[:2], dialing, 10_000, Deadline.after_ms(60_000))
    reason = "192.0.2.1 no connection within the time allowed, 192.0.2.2 no connection within the time allowed"
    assert caught.value.tried == {BROKER: reason}


def test_the_error_names_a_property_if_the_reason_of_one_address_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(target: Target, deadline: Deadline) -> str:
        raise BrokerUnreachable({BROKER: PropertyReason("needs TLS") if target is TARGETS[0] else "refused"})

    with pytest.raises(BrokerUnreachable) as caught:
        first_to_succeed(BROKER, TARGETS[:2], attempt, 10_000, None)
    assert caught.value.tried == {BROKER: "192.0.2.1 needs TLS, 192.0.2.2 refused"}
    assert type(caught.value.tried[BROKER]) is PropertyReason


def test_the_address_that_accepted_after_others_failed_is_tried_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every new connection waits again for an address that drops packets."""
    dialing = Dialing(monkeypatch, TARGETS[1])
    for _ in range(2):
        assert first_to_succeed(BROKER, TARGETS, dialing, 10_000, None) == "192.0.2.2"
    assert [host for host, _ in dialing.tried] == ["192.0.2.1", "192.0.2.2", "192.0.2.2"]
    moved = Dialing(monkeypatch, TARGETS[2])
    for _ in range(2):
        assert first_to_succeed(BROKER, TARGETS, moved, 10_000, None) == "192.0.2.3"
    assert [host for host, _ in moved.tried] == ["192.0.2.2", "192.0.2.1", "192.0.2.3", "192.0.2.3"]


def test_the_order_of_the_resolver_counts_while_no_address_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolvers rotate addresses to spread connections."""
    dialing = Dialing(monkeypatch, *TARGETS)
    rotated = [TARGETS, TARGETS[1:], TARGETS[2:]]
    assert [first_to_succeed(BROKER, order, dialing, 10_000, None) for order in rotated] == [
        *("192.0.2.1", "192.0.2.2", "192.0.2.3")
    ]


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    dialing = Dialing(monkeypatch, TARGETS[1])
    for number in range(2 * MAX_PREFERRED):
        first_to_succeed(HostPort(f"broker-{number}.test", 9092), TARGETS, dialing, 10_000, None)
        assert len(preferred) <= MAX_PREFERRED


def test_a_broker_that_refuses_the_certificate_ends_the_search() -> None:
    def refuse(_target: Target, _deadline: Deadline) -> str:
        raise AuthenticationFailed(BROKER, "ssl.truststore.location", "not trusted")

    with pytest.raises(AuthenticationFailed):
        first_to_succeed(BROKER, TARGETS, refuse, 10_000, None)
