"""The trusted certificates of a Java key store of the type PKCS12 (RFC 7292).

Java trusts a certificate bag if it has the attribute trusted key usage, which ``keytool -importcert`` writes
(``KeyStore.isCertificateEntry``), or if it is the certificate of a key: both bags have the same local key id
(``PKCS12KeyStore.findMatchedCertificate``). The package cryptography returns one key, and certificates without their
attributes, so the bags are read here. It opens the store first, so the password is right and the store's MAC has been
verified.

    PFX          =  SEQUENCE { version, ContentInfo of AuthenticatedSafe, MacData? }
    AuthenticatedSafe  =  SEQUENCE OF ContentInfo of SafeContents, each plain or encrypted
    SafeContents =  SEQUENCE OF SEQUENCE { bag id, [0] bag, SET OF attribute? }
    attribute    =  SEQUENCE { id, SET OF value }

Certificates are encrypted with PBES2 and AES (Java 17, OpenSSL 3), with triple DES, or with RC2 of 40 bits (Java 8 and
OpenSSL 1), or not at all.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from spark_kafka_native._client.security.jks import element

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers import BlockCipherAlgorithm

_INTEGER, _OCTETS, _OID, _SEQUENCE, _SET, _EXPLICIT, _IMPLICIT = 0x02, 0x04, 0x06, 0x30, 0x31, 0xA0, 0x80

# Object identifiers in DER, without tag and length.
_DATA: Final = bytes.fromhex("2a864886f70d010701")
_ENCRYPTED_DATA: Final = bytes.fromhex("2a864886f70d010706")
_KEY_BAG: Final = bytes.fromhex("2a864886f70d010c0a0101")
_SHROUDED_KEY_BAG: Final = bytes.fromhex("2a864886f70d010c0a0102")
_CERTIFICATE_BAG: Final = bytes.fromhex("2a864886f70d010c0a0103")
_X509: Final = bytes.fromhex("2a864886f70d01091601")
_TRUSTED_KEY_USAGE: Final = bytes.fromhex("6086480186f966adca7b0101")
"""2.16.840.1.113894.746875.1.1"""
_FRIENDLY_NAME: Final = bytes.fromhex("2a864886f70d010914")
_LOCAL_KEY_ID: Final = bytes.fromhex("2a864886f70d010915")
_PBES2: Final = bytes.fromhex("2a864886f70d01050d")
_TRIPLE_DES: Final = bytes.fromhex("2a864886f70d010c0103")
_RC2_40: Final = bytes.fromhex("2a864886f70d010c0106")
_AES_KEY_BYTES: Final = {
    bytes.fromhex("608648016503040102"): 16,
    bytes.fromhex("608648016503040116"): 24,
    bytes.fromhex("60864801650304012a"): 32,
}
_PRFS: Final = {
    bytes.fromhex("2a864886f70d0207"): "sha1",
    bytes.fromhex("2a864886f70d0208"): "sha224",
    bytes.fromhex("2a864886f70d0209"): "sha256",
    bytes.fromhex("2a864886f70d020a"): "sha384",
    bytes.fromhex("2a864886f70d020b"): "sha512",
}
_UNKNOWN: Final = (
    "is encrypted with an unsupported algorithm; convert the store with keytool -importkeystore of Java 17"
)

_MAX_ITERATIONS: Final = 5_000_000
"""Java's bound."""
_HASH_BYTES, _BLOCK_BYTES = 20, 64  # of SHA-1

_RC2_TABLE: Final = bytes.fromhex(
    "d978f9c419ddb5ed28e9fd794aa0d89dc67e37832b76538e624c6488448bfba2179a59f587b34f1361456d8d09817d32bd8f40eb86b77b0b"
    "f09521225c6b4e8254d66593ce60b21c7356c014a78cf1dc1275ca1f3bbee4d1423dd430a33cb6266fbf0eda4669075727f21d9bbc944303"
    "f811c7f690ef3ee706c3d52fc8661ed708e8eade8052eef784aa72ac354d6a2a961ad2715a1549744b9fd05e0418a4ecc2e0416e0f51cbcc"
    "2491af50a1f47039997c3a8523b8b47afc02365b255597312d5dfa98e38a92ae05df2910676cbac9d300e6cfe19ea82c6316013f58e289a9"
    "0d38341bab33ffb0bb480c5fb9b1cd2ec5f3db47e5a59c770aa62068fe7fc1ad"
)
_RC2_ROUNDS: Final = (5, 6, 5)
"""Mixing rounds, with a mashing round between."""


class Pkcs12Error(Exception):
    """A store whose certificates cannot be read here."""


class _Bag(NamedTuple):
    kind: bytes
    content: bytes
    attributes: dict[bytes, bytes]
    """The set of values of each, in DER."""

    @property
    def key_id(self) -> bytes | None:
        return self.attributes.get(_LOCAL_KEY_ID)

    @property
    def name(self) -> bytes | None:
        return self.attributes.get(_FRIENDLY_NAME)


def trusted_certificates(data: bytes, password: str | None) -> list[bytes]:
    """The certificates in DER that are marked as trusted, then those of the keys. Raises Pkcs12Error."""
    try:
        bags = _bags(data, password)
        certificates = [bag for bag in bags if bag.kind == _CERTIFICATE_BAG]
        marked = [bag for bag in certificates if _TRUSTED_KEY_USAGE in bag.attributes]
        others = [bag for bag in certificates if _TRUSTED_KEY_USAGE not in bag.attributes]
        keys = [bag for bag in bags if bag.kind in {_KEY_BAG, _SHROUDED_KEY_BAG} and bag.key_id is not None]
        return [der for bag in [*marked, *_own_certificates(keys, others)] for der in _x509(bag)]
    except (IndexError, ValueError):  # the latter is cryptography's
        raise Pkcs12Error("is damaged, or is not written in DER") from None


def _bags(data: bytes, password: str | None) -> list[_Bag]:
    store, _ = element(data, _SEQUENCE, 0)
    _, at = element(store, _INTEGER, 0)
    safes = _content(element(store, _SEQUENCE, at)[0], password)
    return [
        _bag(bag)
        for safe in _sequences(element(safes, _SEQUENCE, 0)[0])
        for bag in _sequences(element(_content(safe, password), _SEQUENCE, 0)[0])
    ]


def _bag(bag: bytes) -> _Bag:
    kind, at = element(bag, _OID, 0)
    content, at = element(bag, _EXPLICIT, at)
    attributes: dict[bytes, bytes] = {}
    if at < len(bag):
        for attribute in _sequences(element(bag, _SET, at)[0]):
            name, values_at = element(attribute, _OID, 0)
            attributes[name] = attribute[values_at:]
    return _Bag(kind, content, attributes)


def _own_certificates(keys: Sequence[_Bag], certificates: Sequence[_Bag]) -> Iterator[_Bag]:
    """Of several certificates with the id of a key Java takes the one with its name, else the last."""
    for key in keys:
        found = [bag for bag in certificates if bag.key_id == key.key_id]
        yield from [bag for bag in found if bag.name == key.name][:1] or found[-1:]


def _x509(bag: _Bag) -> list[bytes]:
    certificate, _ = element(bag.content, _SEQUENCE, 0)
    form, at = element(certificate, _OID, 0)
    if form != _X509:
        return []
    return [element(element(certificate, _EXPLICIT, at)[0], _OCTETS, 0)[0]]


def _content(info: bytes, password: str | None) -> bytes:
    """The bytes in a ContentInfo, decrypted."""
    kind, at = element(info, _OID, 0)
    if kind not in {_DATA, _ENCRYPTED_DATA}:
        raise Pkcs12Error("has contents that are encrypted with a public key")
    content, _ = element(info, _EXPLICIT, at)
    if kind == _DATA:
        return element(content, _OCTETS, 0)[0]
    encrypted, _ = element(content, _SEQUENCE, 0)
    _, at = element(encrypted, _INTEGER, 0)
    encrypted, _ = element(encrypted, _SEQUENCE, at)
    _, at = element(encrypted, _OID, 0)
    algorithm, at = element(encrypted, _SEQUENCE, at)
    data, _ = element(encrypted, _IMPLICIT, at)
    if not data or len(data) % 8:
        raise IndexError
    plain = _decrypted(algorithm, data, password or "")
    padding = plain[-1]
    if not 0 < padding <= 16 or plain[-padding:] != bytes([padding]) * padding:
        raise IndexError
    return plain[:-padding]


def _decrypted(algorithm: bytes, data: bytes, password: str) -> bytes:
    kind, at = element(algorithm, _OID, 0)
    parameters, _ = element(algorithm, _SEQUENCE, at)
    if kind == _PBES2:
        return _decrypted_pbes2(parameters, data, password)
    if kind not in {_TRIPLE_DES, _RC2_40}:
        raise Pkcs12Error(_UNKNOWN)
    salt, at = element(parameters, _OCTETS, 0)
    iterations = _iterations(element(parameters, _INTEGER, at)[0])

    def derived(purpose: int, size: int) -> bytes:
        return derive(password, salt, iterations, purpose, size)

    if kind == _RC2_40:
        return rc2_decrypt(derived(1, 5), derived(2, 8), data)
    from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES  # noqa: PLC0415 -- an extra

    return _decrypted_cbc(TripleDES(derived(1, 24)), derived(2, 8), data)


def _decrypted_pbes2(parameters: bytes, data: bytes, password: str) -> bytes:
    from cryptography.hazmat.primitives.ciphers.algorithms import AES  # noqa: PLC0415 -- an extra

    derivation, at = element(parameters, _SEQUENCE, 0)
    cipher, _ = element(parameters, _SEQUENCE, at)
    _, at = element(derivation, _OID, 0)
    derivation, _ = element(derivation, _SEQUENCE, at)
    salt, at = element(derivation, _OCTETS, 0)
    iterations, at = element(derivation, _INTEGER, at)
    if derivation[at : at + 1] == bytes([_INTEGER]):  # the key's size, which the cipher says too
        _, at = element(derivation, _INTEGER, at)
    prf = "sha1"
    if at < len(derivation):
        prf = _PRFS.get(element(element(derivation, _SEQUENCE, at)[0], _OID, 0)[0], "")
    kind, at = element(cipher, _OID, 0)
    if not prf or kind not in _AES_KEY_BYTES:
        raise Pkcs12Error(_UNKNOWN)
    size = _AES_KEY_BYTES[kind]
    key = hashlib.pbkdf2_hmac(prf, password.encode(), salt, _iterations(iterations), dklen=size)
    return _decrypted_cbc(AES(key), element(cipher, _OCTETS, at)[0], data)


def _iterations(content: bytes) -> int:
    iterations = int.from_bytes(content, "big")
    if not 0 < iterations <= _MAX_ITERATIONS:
        raise Pkcs12Error(f"derives its key by {iterations} iterations; expected 1 to {_MAX_ITERATIONS}")
    return iterations


def _decrypted_cbc(cipher: "BlockCipherAlgorithm", vector: bytes, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.ciphers import Cipher, modes  # noqa: PLC0415 -- an extra

    decryptor = Cipher(cipher, modes.CBC(vector)).decryptor()
    return decryptor.update(data) + decryptor.finalize()


def derive(password: str, salt: bytes, iterations: int, purpose: int, size: int) -> bytes:
    """Bytes of a key (``purpose`` 1) or an initialization vector (2) by SHA-1: RFC 7292, appendix B.2."""
    diversifier = bytes([purpose]) * _BLOCK_BYTES
    mixed = _repeated(salt) + _repeated(password.encode("utf-16-be") + b"\0\0")
    found = b""
    while len(found) < size:
        digest = diversifier + mixed
        for _ in range(iterations):
            digest = hashlib.sha1(digest, usedforsecurity=False).digest()
        found += digest
        addend = int.from_bytes((digest * (_BLOCK_BYTES // _HASH_BYTES + 1))[:_BLOCK_BYTES], "big") + 1
        blocks = (int.from_bytes(mixed[at : at + _BLOCK_BYTES], "big") for at in range(0, len(mixed), _BLOCK_BYTES))
        mixed = b"".join(((block + addend) % (1 << 8 * _BLOCK_BYTES)).to_bytes(_BLOCK_BYTES, "big") for block in blocks)
    return found[:size]


def _repeated(content: bytes) -> bytes:
    size = -(-len(content) // _BLOCK_BYTES) * _BLOCK_BYTES
    return (content * (size // max(len(content), 1) + 1))[:size]


def rc2_decrypt(key: bytes, vector: bytes, data: bytes) -> bytes:
    """``data`` decrypted with RC2 (RFC 2268) in CBC mode, all bits of ``key`` being effective.

    Only to read old stores. It is implemented here because cryptography has RC2 for keys of 128 bits only.
    """
    words = _rc2_words(key)
    plain = bytearray()
    for at in range(0, len(data), 8):
        block = data[at : at + 8]
        plain += bytes(a ^ b for a, b in zip(_rc2_block(words, block), vector, strict=True))
        vector = block
    return bytes(plain)


def _rc2_words(key: bytes) -> tuple[int, ...]:
    table = bytearray(key)
    while len(table) < 128:
        table.append(_RC2_TABLE[(table[-1] + table[-len(key)]) & 0xFF])
    table[128 - len(key)] = _RC2_TABLE[table[128 - len(key)]]
    for at in range(127 - len(key), -1, -1):
        table[at] = _RC2_TABLE[table[at + 1] ^ table[at + len(key)]]
    return struct.unpack("<64H", table)


def _rc2_block(words: tuple[int, ...], block: bytes) -> bytes:
    r = list(struct.unpack("<4H", block))
    at = 63
    for number, rounds in enumerate(_RC2_ROUNDS):
        if number:
            for i in (3, 2, 1, 0):
                r[i] = (r[i] - words[r[i - 1] & 63]) & 0xFFFF
        for _ in range(rounds):
            for i, shift in ((3, 5), (2, 3), (1, 2), (0, 1)):
                rotated = r[i] >> shift | r[i] << 16 - shift
                r[i] = (rotated - words[at] - (r[i - 1] & r[i - 2]) - (~r[i - 1] & r[i - 3])) & 0xFFFF
                at -= 1
    return struct.pack("<4H", *r)


def _sequences(content: bytes) -> Iterator[bytes]:
    """The contents of the sequences that follow each other in ``content``."""
    at = 0
    while at < len(content):
        found, at = element(content, _SEQUENCE, at)
        yield found
