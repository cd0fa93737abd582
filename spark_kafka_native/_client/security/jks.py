"""Java key stores of the type JKS, read without a JVM.

    uint32 magic, version (1, 2) | uint32 count | entries | SHA-1 of the password, a phrase and all bytes before
    entry  =  uint32 tag (1 key, 2 trusted) | utf alias | int64 ms | content
    key    =  uint32 size, an encrypted PKCS #8 key | uint32 count, certificates
    certificate  =  utf type (version 2) | uint32 size, DER

Keys are encrypted with Sun's own scheme: a stream of SHA-1 over password and salt, and a digest after it.
"""

import dataclasses
import hashlib
import hmac
from typing import Final

MAGIC: Final = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"

_KEY: Final = 1
_TRUSTED: Final = 2
_PHRASE: Final = b"Mighty Aphrodite"
_DIGEST_BYTES: Final = 20
_SUN_PROTECTION: Final = bytes.fromhex("060a2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1, in DER."""


class JksError(ValueError):
    """A store that cannot be read: damaged, or another password."""


class WrongPassword(JksError):
    """A password does not open the store, or the key in it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JksKey:
    """A private key, still encrypted, and its certificates in DER, its own first."""

    alias: str
    protected: bytes = dataclasses.field(repr=False)
    chain: tuple[bytes, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JksStore:
    """What a store holds."""

    keys: tuple[JksKey, ...]
    trusted: tuple[bytes, ...]
    """Certificates in DER."""


def read_jks(data: bytes, password: str | None) -> JksStore:
    """A store's entries; without a password they are not checked for damage, as in Java.

    Raises JksError, WrongPassword.
    """
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None:
        expected = hashlib.sha1(_encode_password(password) + _PHRASE + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(expected, digest):
            raise WrongPassword("the password is wrong, or the store is damaged")
    try:
        return _Reader(body).store()
    except (IndexError, UnicodeDecodeError):
        raise JksError("the store is cut short or damaged") from None


def private_key(protected: bytes, password: str) -> bytes:
    """A key of a store as PKCS #8 in DER. Raises JksError, WrongPassword."""
    data = _protected_bytes(protected)
    salt, cipher, check = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    encoded, digest, key = _encode_password(password), salt, bytearray()
    for at in range(0, len(cipher), _DIGEST_BYTES):
        digest = _sha1(encoded + digest)
        key += bytes(a ^ b for a, b in zip(cipher[at : at + _DIGEST_BYTES], digest, strict=False))
    if len(data) <= 2 * _DIGEST_BYTES or not hmac.compare_digest(_sha1(encoded + key), check):
        raise WrongPassword("the password does not open the private key")
    return bytes(key)


class _Reader:
    def __init__(self, body: bytes) -> None:
        self._body = body
        self._at = 0

    def store(self) -> JksStore:
        if self._take(4) != MAGIC:
            raise JksError("this is no store of the type JKS")
        version, count = self._number(), self._number()
        if version not in {1, 2}:
            raise JksError(f"version {version} of the format is not known")
        keys, trusted = [], []
        for _ in range(count):
            tag, alias = self._number(), self._text()
            self._take(8)
            if tag == _KEY:
                protected = self._take(self._number())
                chain = tuple(self._certificate(version) for _ in range(self._number()))
                keys.append(JksKey(alias=alias, protected=protected, chain=chain))
            elif tag == _TRUSTED:
                trusted.append(self._certificate(version))
            else:
                raise JksError(f"entry {alias!r} is of an unknown kind")
        return JksStore(keys=tuple(keys), trusted=tuple(trusted))

    def _certificate(self, version: int) -> bytes:
        if version == 2:
            self._text()
        return self._take(self._number())

    def _number(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def _text(self) -> str:
        return self._take(int.from_bytes(self._take(2), "big")).decode()

    def _take(self, size: int) -> bytes:
        taken = self._body[self._at : self._at + size]
        if len(taken) < size:
            raise IndexError
        self._at += size
        return taken


def _protected_bytes(der: bytes) -> bytes:
    """The bytes in an EncryptedPrivateKeyInfo: SEQUENCE { SEQUENCE { OID, NULL }, OCTET STRING }."""
    try:
        whole, _ = element(der, 0x30, 0)
        algorithm, end = element(whole, 0x30, 0)
        content, _ = element(whole, 0x04, end)
    except IndexError:
        raise JksError("the private key is damaged") from None
    if not algorithm.startswith(_SUN_PROTECTION):
        raise JksError("the private key is encrypted in a way that Java's own JKS stores do not use")
    return content


def element(der: bytes, tag: int, at: int) -> tuple[bytes, int]:
    """The content of the DER element at a position, and where it ends. Raises IndexError."""
    size, start = der[at + 1], at + 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(der[at + 2 : start], "big")
    if der[at] != tag or start + size > len(der):
        raise IndexError
    return der[start : start + size], start + size


def _encode_password(password: str) -> bytes:
    return password.encode("utf-16-be")


def _sha1(data: bytes | bytearray) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()
