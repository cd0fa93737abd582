"""Znodes of brokers: the formats of each version, and what other programs have written."""

import json

import pytest

from spark_kafka_native._net.address import HostPort
from spark_kafka_native._zookeeper.broker_znode import (
    RegisteredBroker,
    RegisteredEndpoint,
    decode_broker,
    encode_broker,
)
from spark_kafka_native._zookeeper.errors import ZooKeeperError

PLAINTEXT = RegisteredEndpoint(listener="PLAINTEXT", protocol="PLAINTEXT", address=HostPort("10.0.0.1", 9092))
CLIENTS = RegisteredEndpoint(listener="CLIENTS", protocol="SASL_PLAINTEXT", address=HostPort("::1", 9093))
BROKER = RegisteredBroker(broker_id=3, endpoints=(CLIENTS, PLAINTEXT), rack="r1")
V1 = {"version": 1, "host": "10.0.0.1", "port": 9092, "jmx_port": -1, "timestamp": "77"}
ENDPOINTS = {"endpoints": ["CLIENTS://[::1]:9093", "PLAINTEXT://10.0.0.1:9092"]}
PROTOCOLS = {"listener_security_protocol_map": {"CLIENTS": "SASL_PLAINTEXT", "PLAINTEXT": "PLAINTEXT"}}


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (1, V1),
        (2, {**V1, "version": 2, **ENDPOINTS}),
        (3, {**V1, "version": 3, **ENDPOINTS, "rack": "r1"}),
        (4, {**V1, "version": 4, **ENDPOINTS, "rack": "r1", **PROTOCOLS}),
        (5, {**V1, "version": 5, **ENDPOINTS, "rack": "r1", **PROTOCOLS, "features": {}}),
    ],
)
def test_each_version_has_the_fields_of_its_release(version: int, expected: dict[str, object]) -> None:
    assert json.loads(encode_broker(BROKER, version, 77)) == expected


@pytest.mark.parametrize("version", [4, 5])
def test_a_written_broker_is_read(version: int) -> None:
    assert decode_broker(3, encode_broker(BROKER, version, 77)) == BROKER


def test_without_a_plaintext_listener_there_is_no_host_and_port() -> None:
    broker = RegisteredBroker(broker_id=3, endpoints=(CLIENTS,))
    found = json.loads(encode_broker(broker, 4, 77))
    assert (found["host"], found["port"]) == (None, -1)


def test_a_node_of_kafka_0_8_is_read() -> None:
    raw = b'{"jmx_port":-1,"timestamp":"1","host":"h","version":1,"port":9092}'
    assert decode_broker(7, raw).endpoints == (
        RegisteredEndpoint(listener="PLAINTEXT", protocol="PLAINTEXT", address=HostPort("h", 9092)),
    )


def test_a_node_of_kafka_3_9_is_read() -> None:
    raw = (
        b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://h:1"],'
        b'"jmx_port":-1,"port":1,"host":"h","version":5,"timestamp":"2","rack":"r"}'
    )
    found = decode_broker(7, raw)
    assert (found.path, found.rack, str(found.endpoints[0])) == ("/brokers/ids/7", "r", "PLAINTEXT://h:1")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"x",
        b"[]",
        b"1",
        b"{}",
        b'{"version":1}',
        b'{"version":4,"endpoints":["h"]}',
        b"[" * 9999,
    ],
)
def test_anything_else_is_an_error_that_names_the_node(raw: bytes) -> None:
    with pytest.raises(ZooKeeperError, match="/brokers/ids/7 is not a broker's registration"):
        decode_broker(7, raw)
