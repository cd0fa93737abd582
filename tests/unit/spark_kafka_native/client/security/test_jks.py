import hashlib
import struct

import pytest

from spark_kafka_native._client.security.jks import JksError, private_key, read_jks
from tests.support.golden_stores import JKS, KEY_PASSWORD, STORE_PASSWORD


def signed(body: bytes, password: str = STORE_PASSWORD) -> bytes:
    return body + hashlib.sha1(password.encode("utf-16-be") + b"Mighty Aphrodite" + body).digest()


def test_keys_and_certificates_of_a_store() -> None:
    store = read_jks(JKS, STORE_PASSWORD)
    (key,) = store.keys
    assert key.alias == "key"
    assert len(key.chain) == 1
    assert store.trusted == key.chain
    assert key.chain[0].startswith(b"\x30\x82")
    pkcs8 = private_key(key.protected, KEY_PASSWORD)
    assert pkcs8.startswith(b"\x30")
    assert pkcs8.hex() not in repr(key)
    assert "protected" not in repr(key)


def test_a_key_fits_its_certificate() -> None:
    from cryptography.hazmat.primitives.serialization import load_der_private_key
    from cryptography.x509 import load_der_x509_certificate

    (key,) = read_jks(JKS, STORE_PASSWORD).keys
    loaded = load_der_private_key(private_key(key.protected, KEY_PASSWORD), None)
    assert loaded.public_key() == load_der_x509_certificate(key.chain[0]).public_key()


def test_a_wrong_jks_password_is_an_error() -> None:
    assert read_jks(JKS, None) == read_jks(JKS, STORE_PASSWORD)
    with pytest.raises(JksError, match="password is wrong"):
        read_jks(JKS, "wrong")
    with pytest.raises(JksError, match="does not open the private key"):
        private_key(read_jks(JKS, None).keys[0].protected, "wrong")


def test_a_store_cut_anywhere_is_damaged() -> None:
    for length in range(len(JKS)):
        with pytest.raises(JksError):
            read_jks(JKS[:length], STORE_PASSWORD)
        with pytest.raises(JksError):
            read_jks(signed(JKS[:-20][:length]), STORE_PASSWORD) if length < len(JKS) - 20 else read_jks(b"", None)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"\xce\xce\xce\xce" + struct.pack(">ii", 2, 0), "no store of the type JKS"),
        (b"\xfe\xed\xfe\xed" + struct.pack(">ii", 3, 0), "version 3"),
        (b"\xfe\xed\xfe\xed" + struct.pack(">iiihq", 2, 1, 3, 0, 0), "of an unknown kind"),
    ],
)
def test_other_bytes_are_no_jks_store(body: bytes, complaint: str) -> None:
    with pytest.raises(JksError, match=complaint):
        read_jks(signed(body), STORE_PASSWORD)


def test_the_first_version_has_no_certificate_types() -> None:
    certificate = struct.pack(">i", 3) + b"der"
    body = b"\xfe\xed\xfe\xed" + struct.pack(">ii", 1, 1) + struct.pack(">ih", 2, 1) + b"a" + bytes(8) + certificate
    assert read_jks(signed(body), STORE_PASSWORD).trusted == (b"der",)


@pytest.mark.parametrize("damaged", [b"", b"\x30", b"\x30\x02\x30\x00", b"\x31\x00", b"\x30\x82\x01"])
def test_a_key_that_is_damaged(damaged: bytes) -> None:
    with pytest.raises(JksError, match="damaged"):
        private_key(damaged, KEY_PASSWORD)


def test_a_key_that_is_encrypted_in_another_way() -> None:
    other = b"\x30\x0d\x30\x07\x06\x05\x2b\x01\x02\x03\x04\x04\x02ab"
    with pytest.raises(JksError, match="JKS stores do not use"):
        private_key(other, KEY_PASSWORD)
