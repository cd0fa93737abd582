import random
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.decrepit.ciphers.algorithms import RC2
from cryptography.hazmat.primitives.ciphers import Cipher, modes
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from spark_kafka_native._client.security.keystores import StoreFile, read_trust_store
from spark_kafka_native._client.security.pkcs12 import Pkcs12Error, rc2_decrypt, trusted_certificates
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._net.secret import Secret
from tests.support import golden_stores
from tests.support.certificates import Authority
from tests.support.golden_stores import AES, NOT_TRUSTED, PLAIN, STORE_PASSWORD, TRIPLE_DES


def anchors(path: Path, content: bytes, password: str | None = STORE_PASSWORD) -> list[str]:
    path.write_bytes(content)
    word = None if password is None else Secret(password)
    pem = read_trust_store(StoreFile(prefix="ssl.truststore", location=str(path), type="PKCS12", password=word))
    return sorted(found.subject.rfc4514_string() for found in x509.load_pem_x509_certificates(pem.encode()))


@pytest.mark.feature("security.tlsStores")
@pytest.mark.parametrize("encryption", ["AES", "RC2", "TRIPLE_DES"])
def test_trusted_are_the_certificate_entries_and_the_certificate_of_a_key(tmp_path: Path, encryption: str) -> None:
    """As in Java: not the authority that a key's certificate chain ends with."""
    content = getattr(golden_stores, encryption)
    assert anchors(tmp_path / "store", content) == ["CN=golden-client", "CN=golden-other"]


@pytest.mark.feature("security.tlsStores")
def test_the_certificate_of_every_key_is_trusted(tmp_path: Path) -> None:
    assert anchors(tmp_path / "store", golden_stores.TWO_KEYS) == ["CN=golden-client", "CN=golden-second"]


def test_a_store_without_encryption(tmp_path: Path) -> None:
    assert anchors(tmp_path / "store", PLAIN, None) == ["CN=golden-other"]


def test_certificates_without_the_attribute_of_java_are_not_trusted(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="holds no trusted certificate; keytool -importcert adds one") as caught:
        anchors(tmp_path / "store", NOT_TRUSTED)
    assert caught.value.option == "ssl.truststore.location"
    assert str(tmp_path / "store") in str(caught.value)


def test_a_certificate_beside_a_key_that_has_none_is_not_trusted(tmp_path: Path) -> None:
    authority = Authority()
    content = pkcs12.serialize_key_and_certificates(
        b"key", authority.issue("client").key, None, [authority.certificate], BestAvailableEncryption(b"x")
    )
    with pytest.raises(ConfigError, match="holds no trusted certificate"):
        anchors(tmp_path / "store", content, "x")


def test_cut_and_damaged_stores_are_refused(tmp_path: Path) -> None:
    for end in range(len(AES) - 100):
        with pytest.raises(Pkcs12Error):
            trusted_certificates(AES[:end], STORE_PASSWORD)
    for at in range(len(PLAIN)):
        damaged = PLAIN[:at] + bytes([PLAIN[at] ^ 0x55]) + PLAIN[at + 1 :]
        try:
            found = trusted_certificates(damaged, None)
        except Pkcs12Error:
            continue
        assert len(found) <= 1


@pytest.mark.parametrize("content", [AES, TRIPLE_DES, golden_stores.RC2])
def test_a_wrong_password_is_an_error(content: bytes) -> None:
    with pytest.raises(Pkcs12Error):
        trusted_certificates(content, "other")


def test_an_encryption_that_is_not_known() -> None:
    prf_and_cipher = bytes.fromhex("2a864886f70d0209"), bytes.fromhex("60864801650304012a")
    for known in prf_and_cipher:
        assert known in AES
        with pytest.raises(Pkcs12Error, match="encrypted with an unsupported algorithm; convert the store with"):
            trusted_certificates(AES.replace(known, known[:-1] + b"\x7f"), STORE_PASSWORD)


@pytest.mark.parametrize("content", [AES, TRIPLE_DES])
def test_iterations_are_bounded_as_in_java(content: bytes) -> None:
    ten_thousand = b"\x02\x02\x27\x10"
    assert ten_thousand in content
    with pytest.raises(Pkcs12Error, match="derives its key by 0 iterations; expected 1 to 5000000"):
        trusted_certificates(content.replace(ten_thousand, b"\x02\x02\x00\x00"), STORE_PASSWORD)


def test_rc2_is_what_openssl_has() -> None:
    """With keys of 128 bits, the only ones that the package cryptography has; RC2 above is with 40 bits."""
    chance = random.Random(1)
    for _ in range(50):
        key, vector, plain = chance.randbytes(16), chance.randbytes(8), chance.randbytes(80)
        encryptor = Cipher(RC2(key), modes.CBC(vector)).encryptor()
        assert rc2_decrypt(key, vector, encryptor.update(plain) + encryptor.finalize()) == plain
