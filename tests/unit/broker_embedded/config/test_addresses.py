"""Addresses as people write them, and those that a host has."""

import pytest

from broker_embedded.config.addresses import Endpoint, addresses_of, format_address, parse_address
from broker_embedded.config.settings import ConfigError


@pytest.mark.parametrize("text", ["localhost:0", "127.0.0.1:9092", "[::1]:9092", ":9092"])
def test_addresses_are_spelled_as_they_are_read(text: str) -> None:
    assert format_address(*parse_address("--listen", text)) == text


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:-1", "localhost:65536", "::1:9092"])
def test_what_is_no_address_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--listen: .* is not HOST:PORT"):
        parse_address("--listen", text)


@pytest.mark.parametrize("text", ["PLAINTEXT://127.0.0.1:9092", "INSIDE://[::1]:0", "OUTSIDE://:9093"])
def test_endpoints_have_a_name_too(text: str) -> None:
    endpoint = Endpoint.parse("listeners", f" {text} ")
    assert f"{endpoint.name}://{endpoint.address}" == text
    with pytest.raises(ConfigError, match="is not NAME://HOST:PORT"):
        Endpoint.parse("listeners", text.partition("://")[2])


def test_an_address_is_its_own_and_a_host_has_those_that_the_system_finds() -> None:
    assert addresses_of("192.0.2.7") == {"192.0.2.7"}
    assert addresses_of("0:0:0:0:0:0:0:1") == {"::1"}
    assert addresses_of("localhost") & {"127.0.0.1", "::1"}
    assert addresses_of("no-such-host.invalid") == set()
    assert addresses_of("a" * 100 + ".invalid") == set()
