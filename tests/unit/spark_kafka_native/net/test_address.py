import pytest

from spark_kafka_native._net.address import HostPort, parse_address, parse_addresses


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("broker:9092", HostPort("broker", 9092)),
        (" 10.0.0.1:1 ", HostPort("10.0.0.1", 1)),
        ("[::1]:9092", HostPort("::1", 9092)),
        ("PLAINTEXT://broker:65535", HostPort("broker", 65535)),
        ("plaintext://[fe80::1%eth0]:9092", HostPort("fe80::1%eth0", 9092)),
        ("SASL_SSL://broker:9093", HostPort("broker", 9093)),
        ("DOCKER_2.internal-%://broker:9093", HostPort("broker", 9093)),
    ],
)
def test_addresses_as_users_write_them(text: str, expected: HostPort) -> None:
    assert parse_address(text) == expected


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("broker", "has no port; expected host:port, as in broker:9092"),
        ("broker:", "has no port"),
        ("[::1]", "has no port"),
        ("::1:9092", "an IPv6 address needs brackets"),
        ("::1", "an IPv6 address needs brackets"),
        (":9092", "has no host name"),
        ("a b:9092", "has no host name"),
        ("broker:0", "is not a port"),
        ("broker:65536", "is not a port"),
        ("broker:9o92", "is not a port"),
        ("broker:-1", "is not a port"),
        ("a b://broker:9092", "'a b' is not the name of a listener"),
        ("a:9092;b:9092", "addresses are separated by commas"),
    ],
)
def test_malformed_addresses_are_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"broker|::1|9092|a b") as caught:
        parse_address(text)
    assert complaint in str(caught.value)


def test_a_list_keeps_its_order_and_drops_repetitions_and_blanks() -> None:
    assert parse_addresses("b:2, a:1,,b:2 ,") == (HostPort("b", 2), HostPort("a", 1))


@pytest.mark.parametrize("text", ["", " , ", ","])
def test_an_empty_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="names no server"):
        parse_addresses(text)


def test_ipv6_gets_its_brackets_back() -> None:
    assert [str(HostPort("::1", 9092)), str(HostPort("broker", 9092))] == ["[::1]:9092", "broker:9092"]
