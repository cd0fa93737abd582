import os
from pathlib import Path

import pytest

from spark_kafka_native.client.config import ClientConfig
from spark_kafka_native.client.properties import ConfigError
from spark_kafka_native.client.security_source import SecuritySource
from spark_kafka_native.net.security import PLAINTEXT
from tests.support.certificates import Authority

SERVERS = {"bootstrap.servers": "a:1"}


def test_plain_connections_need_nothing() -> None:
    source = SecuritySource(ClientConfig.parse(SERVERS))
    assert source.current() is PLAINTEXT


def test_stores_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    trust = tmp_path / "ca.pem"
    options = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
               "sasl.login.callback.handler.class": "os:getcwd", "ssl.truststore.type": "PEM",
               "ssl.truststore.location": trust}  # fmt: skip
    source = SecuritySource(ClientConfig.parse(SERVERS | options))
    with pytest.raises(ConfigError, match="cannot be read"):
        source.current()
    trust.write_text(Authority().certificate_pem)
    first = source.current()
    assert source.current() is first
    trust.write_text(Authority().certificate_pem + "\n")
    os.utime(trust, (1, 1))
    second = source.current()
    assert second.tls is not first.tls
    assert second.sasl is first.sasl, "tokens that are still good were forgotten"


def test_without_files_it_is_made_once() -> None:
    source = SecuritySource(ClientConfig.parse(SERVERS | {"security.protocol": "SSL"}))
    assert source.current() is source.current()
