import sys
from pathlib import Path

import pytest

from spark_kafka_native._client.security.keystores import (
    StoreFile,
    pem_certificates,
    pem_key,
    read_key_store,
    read_trust_store,
)
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._net.tls import Tls, TlsSettings
from tests.support.certificates import Authority
from tests.support.golden_stores import JKS, KEY_PASSWORD, STORE_PASSWORD

AUTHORITY = Authority()
CLIENT = AUTHORITY.issue("client")
WORD = Secret(STORE_PASSWORD)


def store(path: Path, content: bytes, kind: str = "JKS", password: Secret | None = WORD) -> StoreFile:
    path.write_bytes(content)
    return StoreFile(prefix="ssl.keystore", location=str(path), type=kind, password=password)


def load(file: StoreFile, key_password: Secret | None = None) -> Tls:
    """A context with the key of a store, which OpenSSL has checked against its certificate."""
    found = read_key_store(file, key_password)
    return Tls(TlsSettings(certificate_chain=found.chain, private_key=found.key, key_password=found.password))


def refusal(file: StoreFile, key_password: Secret | None = None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(file, key_password)
    assert STORE_PASSWORD not in str(caught.value)
    return caught.value


@pytest.mark.feature("security.tlsStores")
def test_keys_of_all_types(tmp_path: Path) -> None:
    pem = (CLIENT.key_pem + CLIENT.chain_pem).encode()
    assert load(store(tmp_path / "a", JKS), Secret(KEY_PASSWORD)).has_certificate
    assert load(store(tmp_path / "b", CLIENT.pkcs12(STORE_PASSWORD), "PKCS12")).has_certificate
    assert load(store(tmp_path / "c", pem, "PEM", None)).has_certificate
    locked = (CLIENT.chain_pem + CLIENT.encrypted_key_pem("x")).encode()
    assert load(store(tmp_path / "d", locked, "PEM", None), Secret("x")).has_certificate


def test_java_reads_pkcs12_under_the_name_jks_and_the_other_way_round(tmp_path: Path) -> None:
    assert load(store(tmp_path / "a", CLIENT.pkcs12(STORE_PASSWORD), "JKS")).has_certificate
    assert load(store(tmp_path / "b", JKS, "PKCS12"), Secret(KEY_PASSWORD)).has_certificate


@pytest.mark.feature("security.tlsStores")
def test_trust_stores_of_all_types(tmp_path: Path) -> None:
    ours = AUTHORITY.certificate_pem
    assert read_trust_store(store(tmp_path / "a", ours.encode(), "PEM")) == ours
    assert read_trust_store(store(tmp_path / "b", AUTHORITY.trust_store_pkcs12(STORE_PASSWORD), "PKCS12")) == ours
    golden = read_trust_store(store(tmp_path / "c", JKS))
    assert golden.count("BEGIN CERTIFICATE") == 2
    assert Tls(TlsSettings(trusted=golden))
    assert read_trust_store(store(tmp_path / "d", CLIENT.pkcs12(STORE_PASSWORD))) == CLIENT.chain_pem


def test_pem_on_one_line() -> None:
    one_line = " ".join(CLIENT.chain_pem.split("\n"))
    escaped = CLIENT.chain_pem.replace("\n", "\\n")
    assert pem_certificates(one_line, "x") == pem_certificates(escaped, "x") == CLIENT.chain_pem
    assert pem_key(Secret(" ".join(CLIENT.key_pem.split("\n"))), "x") == Secret(CLIENT.key_pem)
    both = f"text {CLIENT.chain_pem} text {AUTHORITY.certificate_pem} text"
    assert pem_certificates(both, "x") == CLIENT.chain_pem + AUTHORITY.certificate_pem


@pytest.mark.parametrize("text", ["", "hunter2", CLIENT.chain_pem, CLIENT.key_pem * 2])
def test_no_key_or_two(text: str) -> None:
    with pytest.raises(ConfigError, match="private keys in PEM") as caught:
        pem_key(Secret(text), "ssl.keystore.key")
    assert "hunter2" not in str(caught.value)


def test_no_certificate() -> None:
    with pytest.raises(ConfigError, match="no certificate"):
        pem_certificates("hunter2", "ssl.truststore.certificates")


def test_file_without_a_certificate_or_key_is_named(tmp_path: Path) -> None:
    file = tmp_path / "store.pem"
    file.write_text(CLIENT.key_pem)
    store = StoreFile(prefix="ssl.keystore", location=str(file), type="PEM", password=None)
    with pytest.raises(ConfigError, match=rf"ssl\.keystore\.location: {file}: holds no certificate"):
        read_trust_store(store)
    file.write_text(CLIENT.chain_pem)
    with pytest.raises(ConfigError, match=rf"ssl\.keystore\.location: {file}: holds 0 private keys"):
        read_key_store(store, None)


def test_stores_of_another_type_are_refused(tmp_path: Path) -> None:
    pem, file = CLIENT.chain_pem.encode(), tmp_path / "store"
    for content, kind, option, complaint in [
        (JKS, "PEM", "type", "binary store"),
        (pem, "JKS", "type", "set this to PEM"),
        (b"\xce\xce\xce\xce", "JKS", "location", "JCEKS"),
        (b"hello", "JKS", "location", "no store"),
        (b"", "PKCS12", "location", "no store"),
        (b"\x30\x03abc", "PKCS12", "password", "damaged"),
        (JKS[:-1], "JKS", "password", "password is wrong"),
        (AUTHORITY.trust_store_pkcs12(STORE_PASSWORD), "PKCS12", "location", "no private key"),
    ]:
        error = refusal(store(file, content, kind))
        assert error.option == f"ssl.keystore.{option}", complaint
        assert complaint in error.message
        assert str(file) in error.message


def test_passwords_that_do_not_open(tmp_path: Path) -> None:
    assert refusal(store(tmp_path / "a", JKS)).option == "ssl.keystore.password"
    assert refusal(store(tmp_path / "a", JKS, "JKS", None)).option == "ssl.keystore.password"
    assert refusal(store(tmp_path / "a", JKS), Secret("other")).option == "ssl.key.password"
    wrong = store(tmp_path / "b", CLIENT.pkcs12("other"), "PKCS12")
    assert refusal(wrong).option == "ssl.keystore.password"


@pytest.mark.parametrize("content", [JKS, AUTHORITY.trust_store_pkcs12(STORE_PASSWORD)], ids=["JKS", "PKCS12"])
def test_a_password_that_does_not_open_a_trust_store(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ConfigError, match="the password is wrong") as caught:
        read_trust_store(store(tmp_path / "a", content, password=Secret("other")))
    assert caught.value.option == "ssl.keystore.password", "this store goes by that name"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = StoreFile(prefix="ssl.truststore", location=str(tmp_path / "x"), type="JKS", password=None)
    with pytest.raises(ConfigError, match="cannot be read: No such file") as caught:
        read_trust_store(missing)
    assert caught.value.option == "ssl.truststore.location"


def test_a_missing_package_is_an_error_that_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    assert (
        "run `pip install 'spark-kafka-native[security]'`"
        in refusal(store(tmp_path / "a", CLIENT.pkcs12("x"), "PKCS12")).message
    )
    assert load(store(tmp_path / "b", JKS), Secret(KEY_PASSWORD)).has_certificate
