import os
from pathlib import Path

import pytest

from spark_kafka_native._client.config import ClientConfig
from spark_kafka_native._client.security.factory import security_of
from spark_kafka_native._client.security.reloadable import ReloadableSecurity
from spark_kafka_native._net.channel_security import PLAINTEXT
from spark_kafka_native._net.errors import ConfigError
from tests.support.certificates import Authority

SERVERS = {"bootstrap.servers": "a:1"}


def test_plain_connections_need_nothing() -> None:
    security = ReloadableSecurity(ClientConfig.parse(SERVERS), security_of)
    assert security.current() is PLAINTEXT


def test_stores_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    trust = tmp_path / "ca.pem"
    options = {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER",
               "sasl.login.callback.handler.class": "os:getcwd", "ssl.truststore.type": "PEM",
               "ssl.truststore.location": trust}  # fmt: skip
    security = ReloadableSecurity(ClientConfig.parse(SERVERS | options), security_of)
    with pytest.raises(ConfigError, match="cannot be read"):
        security.current()
    trust.write_text(Authority().certificate_pem)
    first = security.current()
    assert security.current() is first
    trust.write_text(Authority().certificate_pem + "\n")
    os.utime(trust, (1, 1))
    second = security.current()
    assert second.tls is not first.tls
    assert second.sasl is first.sasl, "tokens that are still good were forgotten"


def rotate(path: Path, content: str | bytes, at: int) -> None:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (at, at))


@pytest.mark.parametrize("content", ["", "-----BEGIN CERT", "-----BEGIN CERTIFICATE-----\nAAAA\n", None])
def test_a_store_that_cannot_be_read_for_a_moment_leaves_the_last_context_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: str | None
) -> None:
    authority, trust = Authority(), tmp_path / "ca.pem"
    options = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": trust}
    security = ReloadableSecurity(ClientConfig.parse(SERVERS | options), security_of)
    rotate(trust, authority.certificate_pem, 1)
    first = security.current()
    if content is None:
        trust.unlink()
    else:
        rotate(trust, content, 2)
    assert security.current() is first
    assert security.current() is first
    (warning,) = caplog.messages
    assert f"ssl.truststore.location={trust} has changed and cannot be used" in warning
    rotate(trust, authority.certificate_pem, 2)
    assert security.current().tls is not first.tls


def test_a_key_that_is_renewed_after_its_certificate_leaves_the_last_context_in_use(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority, store = Authority(), tmp_path / "key.pem"
    old, new = authority.issue("client"), authority.issue("client")
    options = {"security.protocol": "SSL", "ssl.keystore.type": "PEM", "ssl.keystore.location": store}
    security = ReloadableSecurity(ClientConfig.parse(SERVERS | options), security_of)
    rotate(store, old.key_pem + old.chain_pem, 1)
    first = security.current()
    rotate(store, old.key_pem + new.chain_pem, 2)
    assert security.current() is first
    assert f"ssl.keystore.location={store}" in caplog.text
    assert "does not belong to the certificate" in caplog.text
    rotate(store, new.key_pem + new.chain_pem, 3)
    assert security.current().tls is not first.tls


def test_a_store_that_is_unusable_at_first_is_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    trust = tmp_path / "ca.pem"
    options = {"security.protocol": "SSL", "ssl.truststore.type": "PEM", "ssl.truststore.location": trust}
    security = ReloadableSecurity(ClientConfig.parse(SERVERS | options), security_of)
    for content in ("", "-----BEGIN CERTIFICATE-----\n\N{SNOWMAN}\n-----END CERTIFICATE-----\n"):
        rotate(trust, content, 1)
        with pytest.raises(ConfigError, match=r"ssl\.truststore"):
            security.current()
    assert not caplog.messages


def test_without_files_it_is_made_once() -> None:
    security = ReloadableSecurity(ClientConfig.parse(SERVERS | {"security.protocol": "SSL"}), security_of)
    assert security.current() is security.current()
