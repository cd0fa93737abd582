import re
import socket
import time

import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.channel_security import ChannelSecurity
from spark_kafka_native._net.deadline import Deadline
from spark_kafka_native._net.dialing import (
    SocketOptions,
    connect,
    first_to_succeed,
    foreign_server,
    reason_of,
    targets_of,
)
from spark_kafka_native._net.errors import BrokerUnreachable, PropertyReason
from spark_kafka_native._protocol.errors import RemoteProtocolError
from tests.support.servers.hanging import hanging_server


def test_a_connection_is_made() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = HostPort("127.0.0.1", server.getsockname()[1])
        (target,) = targets_of(address)
        stream = connect(address, target, SocketOptions(), Deadline.after_ms(5_000))
        assert stream.fileno() >= 0
        stream.close()


def test_no_listener() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = HostPort("127.0.0.1", server.getsockname()[1])
    (target,) = targets_of(address)
    with pytest.raises(BrokerUnreachable, match="refused"):
        connect(address, target, SocketOptions(), Deadline.after_ms(5_000))


def test_the_setup_timeout_without_a_connection_is_named() -> None:
    options = SocketOptions(connect_timeout_ms=20, security=ChannelSecurity(option_prefix="kafka."))
    assert reason_without_a_connection(options, time_left_ms=60_000) == (
        "no connection within 20 ms; raise kafka.socket.connection.setup.timeout.ms if the network is slow"
    )


def test_the_setup_timeout_is_not_named_if_less_time_was_left() -> None:
    reason = reason_without_a_connection(SocketOptions(), time_left_ms=20)
    assert re.fullmatch(r"no connection within [12]?0 ms", reason)


def test_the_setup_timeout_is_not_named_if_a_part_of_as_much_time_was_left() -> None:
    reason = reason_without_a_connection(SocketOptions(connect_timeout_ms=20), time_left_ms=20, pause_s=0.005)
    assert re.fullmatch(r"no connection within [12]?0 ms", reason)


def reason_without_a_connection(options: SocketOptions, *, time_left_ms: int, pause_s: float = 0.0) -> str:
    with hanging_server() as address:
        deadline = Deadline.after_ms(time_left_ms)
        time.sleep(pause_s)  # uses up a part of the deadline
        with pytest.raises(BrokerUnreachable) as caught:
            first_to_succeed(
                address,
                targets_of(address),
                lambda target, setup: connect(address, target, options, setup),
                options.connect_timeout_ms,
                deadline,
            )
    return caught.value.tried[address]


@pytest.mark.parametrize(
    ("head", "hint", "kind"),
    [
        (b"\x15\x03\x03\x00", "it answers like a TLS server; kafka.security.protocol is PLAINTEXT", PropertyReason),
        (b"HTTP", "its response begins with 'HTTP'", str),
        (b"\xff\xfe\x00\x01", "frame of -1 bytes", str),
    ],
)
def test_servers_of_other_protocols_are_recognised(head: bytes, hint: str, kind: type[str]) -> None:
    address = HostPort("broker", 9092)
    security = ChannelSecurity(option_prefix="kafka.")
    error = foreign_server(address, bytearray(head), security, RemoteProtocolError("frame of -1 bytes"))
    assert error.tried == {address: f"does not speak Kafka's protocol ({hint})"}
    assert type(error.tried[address]) is kind


def test_reasons_are_ends_of_sentences() -> None:
    assert reason_of(TimeoutError()) == "no connection within the time allowed"
    assert reason_of(OSError(1, "Some Thing")) == "some Thing"
