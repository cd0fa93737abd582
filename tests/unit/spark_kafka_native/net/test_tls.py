import gc
import os
import ssl
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_native._net import tls
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._net.tls import Tls, TlsSettings, openssl_name
from tests.support.certificates import Authority, Identity


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def client(authority: Authority) -> Identity:
    return authority.issue("client")


def settings(**given: Any) -> TlsSettings:
    return TlsSettings(**given)


def refusal(**given: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        Tls(settings(**given))
    assert str(caught.value).startswith(f"{caught.value.option}: ")
    return caught.value


@pytest.mark.parametrize(
    ("java", "openssl"),
    [
        ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "ECDHE-ECDSA-AES128-SHA256"),
        ("TLS_DHE_RSA_WITH_AES_256_CBC_SHA", "DHE-RSA-AES256-SHA"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("SSL_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_ARIA_128_GCM_SHA256", "ECDHE-RSA-ARIA128-GCM-SHA256"),
    ],
)
def test_javas_names_of_cipher_suites(java: str, openssl: str) -> None:
    assert openssl_name(java) == openssl


def context_of(**given: Any) -> ssl.SSLContext:
    return Tls(settings(**given)).context


def test_host_names_and_certificates_are_checked_unless_the_first_is_turned_off() -> None:
    context = context_of()
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    context = context_of(check_host_name=False)
    assert (context.check_hostname, context.verify_mode) == (False, ssl.CERT_REQUIRED)


@pytest.mark.parametrize(
    ("given", "oldest", "newest"),
    [
        ({}, "TLSv1_2", "TLSv1_3"),
        ({"enabled_protocols": ("TLSv1.3",)}, "TLSv1_3", "TLSv1_3"),
        ({"protocol": "TLSv1.2"}, "TLSv1_2", "TLSv1_2"),
        ({"protocol": "TLS"}, "TLSv1_2", "TLSv1_3"),
        ({"enabled_protocols": ("TLSv1.2", "TLSv1.1")}, "TLSv1_1", "TLSv1_2"),
        ({"cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, "TLSv1_3", "TLSv1_3"),
        ({"cipher_suites": ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",)}, "TLSv1_2", "TLSv1_2"),
    ],
)
def test_oldest_and_newest_tls_version(given: dict[str, Any], oldest: str, newest: str) -> None:
    context = context_of(**given)
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion[oldest], ssl.TLSVersion[newest])


@pytest.mark.parametrize(
    ("given", "option", "reason"),
    [
        ({"enabled_protocols": ("SSLv3",)}, "ssl.enabled.protocols", "'SSLv3' is not one of TLSv1"),
        ({"enabled_protocols": ()}, "ssl.enabled.protocols", "no TLS version remains"),
        ({"enabled_protocols": ("TLSv1.3", "TLSv1.1")}, "ssl.enabled.protocols", "has a gap"),
        ({"enabled_protocols": ("TLSv1.3",), "protocol": "TLSv1.2"}, "ssl.enabled.protocols", "no TLS version remains"),
        ({"protocol": "SSLv3"}, "ssl.protocol", "'SSLv3' is not one of TLS"),
        ({"cipher_suites": ("TLS_KRB5_WITH_DES_CBC_SHA",)}, "ssl.cipher.suites", "TLS_KRB5_WITH_DES_CBC_SHA"),
        ({"cipher_suites": ("TLS_AES_1_GCM_SHA1",)}, "ssl.cipher.suites", "TLS_AES_1_GCM_SHA1"),
        ({"trusted": "nonsense"}, "ssl.truststore.certificates", "cannot be read"),
        ({"certificate_chain": "nonsense"}, "ssl.keystore.key", "no private key"),
        ({"certificate_chain": "x", "private_key": Secret("hunter2")}, "ssl.key", ""),
    ],
)
def test_settings_that_cannot_be(given: dict[str, Any], option: str, reason: str) -> None:
    error = refusal(**given)
    assert error.option.startswith(option)
    assert reason in error.message
    assert "hunter2" not in str(error)


def test_keys_plain_and_encrypted(client: Identity) -> None:
    assert Tls(settings(certificate_chain=client.chain_pem, private_key=Secret(client.key_pem))).has_certificate
    locked = Secret(client.encrypted_key_pem("hunter2"))
    assert Tls(
        settings(certificate_chain=client.chain_pem, private_key=locked, key_password=Secret("hunter2"))
    ).has_certificate
    assert not Tls(settings()).has_certificate


@pytest.mark.parametrize("password", [None, Secret("wrong"), Secret("x" * 5000)])
def test_a_key_that_does_not_open_names_its_password(client: Identity, password: Secret | None) -> None:
    locked = Secret(client.encrypted_key_pem("hunter2"))
    error = refusal(certificate_chain=client.chain_pem, private_key=locked, key_password=password)
    assert error.option == "ssl.key.password"


def test_a_key_of_another_certificate(authority: Authority, client: Identity) -> None:
    other = Secret(authority.issue("other").key_pem)
    assert refusal(certificate_chain=client.chain_pem, private_key=other).option == "ssl.keystore.key"


@pytest.mark.parametrize("in_memory", [True, False])
def test_no_file_with_a_key_is_left(
    client: Identity, in_memory: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif not hasattr(os, "memfd_create"):
        pytest.skip("this system has no files in memory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[int] = []
    real = tls._file_of

    def watched(data: bytes) -> Any:
        manager = real(data)
        seen.append(len(data))
        return manager

    monkeypatch.setattr(tls, "_file_of", watched)
    before = set(os.listdir("/proc/self/fd")) if in_memory else set()
    Tls(settings(certificate_chain=client.chain_pem, private_key=Secret(client.key_pem)))
    gc.collect()
    assert seen
    assert list(tmp_path.iterdir()) == []
    if in_memory:
        assert set(os.listdir("/proc/self/fd")) <= before


def test_a_temporary_file_is_for_its_owner_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    with tls._file_of(b"key") as path:
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert Path(path).read_bytes() == b"key"
    assert not os.path.exists(path)
