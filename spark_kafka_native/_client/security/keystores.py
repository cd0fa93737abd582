"""Key stores and trust stores -> PEM texts, whichever of Java's types they are: PEM, JKS, PKCS12.

What kind of store a file is shows in its first bytes; Java itself reads PKCS12 files under the name JKS.
"""

import base64
import dataclasses
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_kafka_native._client.security.jks import (
    JCEKS_MAGIC,
    MAGIC,
    JksError,
    JksStore,
    WrongPassword,
    private_key,
    read_jks,
)
from spark_kafka_native._client.security.pkcs12 import Pkcs12Error, trusted_certificates
from spark_kafka_native._extras import install_hint
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._net.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate, PKCS12KeyAndCertificates

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_DER_SEQUENCE: Final = b"\x30"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeyMaterial:
    """A private key, maybe encrypted, and its certificates, in PEM; ``password`` opens the key."""

    key: Secret
    chain: str
    password: Secret | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoreFile:
    """A store as its properties describe it; ``prefix`` is ``ssl.keystore`` or ``ssl.truststore``."""

    prefix: str
    location: str
    type: str
    password: Secret | None

    def error(self, message: str, suffix: str = "location") -> ConfigError:
        """The error that names a property of this store and its file."""
        return ConfigError(f"{self.prefix}.{suffix}", f"{self.location}: {message}")


def pem_key(text: Secret, option: str, file: str = "") -> Secret:
    """The private key in a PEM text, of ``file`` if it is from one. Raises ConfigError naming ``option``."""
    keys = [block for kind, block in _blocks(text.reveal()) if kind.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        raise ConfigError(option, f"{file and f'{file}: '}holds {len(keys)} private keys in PEM; one is needed")
    return Secret(keys[0])


def pem_certificates(text: str, option: str, file: str = "") -> str:
    """The certificates in a PEM text, of ``file`` if it is from one. Raises ConfigError naming ``option``."""
    found = [block for kind, block in _blocks(text) if kind in {"CERTIFICATE", "X509 CERTIFICATE"}]
    if not found:
        raise ConfigError(option, f"{file and f'{file}: '}holds no certificate in PEM")
    return "".join(found)


def read_key_store(store: StoreFile, key_password: Secret | None) -> KeyMaterial:
    """The first private key of a store, with its certificates. Raises ConfigError."""
    data = _read(store)
    if _is_pem(store, data):
        text = data.decode("utf-8", "replace")
        option = f"{store.prefix}.location"
        key = pem_key(Secret(text), option, store.location)
        return KeyMaterial(key=key, chain=pem_certificates(text, option, store.location), password=key_password)
    if data.startswith(MAGIC):
        return _jks_key(store, data, key_password)
    return _pkcs12_key(store, data)


def read_trust_store(store: StoreFile) -> str:
    """The certificates that Java trusts: trusted certificates, and the first one of each key. Raises ConfigError."""
    data = _read(store)
    if _is_pem(store, data):
        return pem_certificates(data.decode("utf-8", "replace"), f"{store.prefix}.location", store.location)
    if data.startswith(MAGIC):
        found = _jks(store, data)
        trusted = [*found.trusted, *(key.chain[0] for key in found.keys if key.chain)]
    else:
        trusted = _pkcs12_trusted(store, data)
    if not trusted:
        raise store.error("holds no trusted certificate; keytool -importcert adds one")
    return "".join(_pem("CERTIFICATE", der) for der in trusted)


def _jks_key(store: StoreFile, data: bytes, key_password: Secret | None) -> KeyMaterial:
    keys = _jks(store, data).keys
    if not keys:
        raise store.error("holds no private key")
    password = key_password or store.password
    if password is None:
        raise store.error("is required to open the private key", "password")
    try:
        key = private_key(keys[0].protected, password.reveal())
    except WrongPassword as error:
        if key_password:
            raise ConfigError("ssl.key.password", f"{store.location}: {error}") from None
        raise store.error(str(error), "password") from None
    except JksError as error:
        raise store.error(str(error)) from None
    chain = "".join(_pem("CERTIFICATE", der) for der in keys[0].chain)
    return KeyMaterial(key=Secret(_pem("PRIVATE KEY", key)), chain=chain, password=None)


def _jks(store: StoreFile, data: bytes) -> JksStore:
    try:
        return read_jks(data, None if store.password is None else store.password.reveal())
    except WrongPassword as error:
        raise store.error(str(error), "password") from None
    except JksError as error:
        raise store.error(str(error)) from None


def _pkcs12_key(store: StoreFile, data: bytes) -> KeyMaterial:
    found = _open_pkcs12(store, data)
    if found.key is None:
        raise store.error("holds no private key")
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415 -- an extra

    text = found.key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    chain = [*([] if found.cert is None else [found.cert]), *found.additional_certs]
    return KeyMaterial(
        key=Secret(text.decode()), chain="".join(_pem("CERTIFICATE", _der(each)) for each in chain), password=None
    )


def _pkcs12_trusted(store: StoreFile, data: bytes) -> list[bytes]:
    found = _open_pkcs12(store, data)
    try:
        trusted = trusted_certificates(data, None if store.password is None else store.password.reveal())
    except Pkcs12Error as error:
        raise store.error(str(error)) from None
    # The first key's certificate is also found where the bags have no key id: cryptography compares public keys.
    first = [] if found.key is None or found.cert is None else [_der(found.cert)]
    return list(dict.fromkeys([*trusted, *first]))


def _open_pkcs12(store: StoreFile, data: bytes) -> "PKCS12KeyAndCertificates":
    try:
        from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415 -- an extra
    except ImportError as error:
        needed = install_hint("cryptography", "security")
        raise store.error(f"stores of the type PKCS12 need {needed}") from error
    try:
        return pkcs12.load_pkcs12(data, None if store.password is None else store.password.reveal().encode())
    except ValueError:
        raise store.error("the password is wrong, or the store is damaged", "password") from None


def _der(certificate: "PKCS12Certificate") -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding  # noqa: PLC0415 -- an extra

    return certificate.certificate.public_bytes(Encoding.DER)


def _is_pem(store: StoreFile, data: bytes) -> bool:
    """Whether a store is PEM. Raises ConfigError: it is not of its configured type, or its type is not supported."""
    if data.startswith(JCEKS_MAGIC):
        raise store.error("is of the type JCEKS; keytool -importkeystore makes PKCS12 of it")
    if data.startswith((MAGIC, _DER_SEQUENCE)):
        if store.type == "PEM":
            raise store.error("is a binary store, not PEM", "type")
        return False
    if b"-----BEGIN " in data:
        if store.type != "PEM":
            raise store.error("is PEM; set this to PEM", "type")
        return True
    raise store.error("is no store of the types JKS, PKCS12 and PEM")


def _read(store: StoreFile) -> bytes:
    try:
        return Path(store.location).read_bytes()
    except OSError as error:
        raise store.error(f"cannot be read: {error.strerror or error}") from None


def _blocks(text: str) -> list[tuple[str, str]]:
    """PEM blocks by kind, well laid out: in a property they often stand on one line."""
    found = []
    for kind, body in _BLOCK.findall(text.replace("\\n", "\n")):
        encoded = body if ":" in body else "\n" + "\n".join(textwrap.wrap("".join(body.split()), 64)) + "\n"
        found.append((kind, f"-----BEGIN {kind}-----{encoded}-----END {kind}-----\n"))
    return found


def _pem(kind: str, der: bytes) -> str:
    body = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n"
