"""TLS contexts from PEM texts and Kafka's ``ssl.*`` settings.

Settings and certificates are checked when the context is made; ``ConfigError`` names the property at fault.
"""

import contextlib
import dataclasses
import os
import re
import ssl
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Final

from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._net.secret import Secret

VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
"""Java's names of protocol versions, oldest first."""

_TLS_1_3_SUITE: Final = re.compile(r"TLS_(AES|CHACHA20)_[A-Z0-9_]+")
_OLD_SUITE: Final = re.compile(r"(?:TLS|SSL)_([A-Z0-9_]+)_WITH_([A-Z0-9_]+)")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The values of a context. PEM texts hold whole blocks; ``None`` for ``trusted`` means the system's own list."""

    trusted: str | None = None
    certificate_chain: str | None = None
    private_key: Secret | None = None
    key_password: Secret | None = None
    enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    protocol: str = "TLSv1.3"
    """The newest version to speak, whatever is enabled; ``TLS`` for no bound."""
    cipher_suites: tuple[str, ...] = ()
    """By Java's names; none: OpenSSL's choice."""
    check_host_name: bool = True


class Tls:
    """A context that connections are wrapped with. Threads may share it."""

    def __init__(self, settings: TlsSettings, *, validate_only: bool = False) -> None:
        """Raises ConfigError. ``validate_only``: the context is made to find errors, and accepts no certificate."""
        self.settings = settings
        self.has_certificate = settings.certificate_chain is not None
        self.context = _context(settings, validate_only)

    def wrap(self, sock: Any, host: str) -> ssl.SSLSocket:
        """A TLS socket over a connected one, its handshake not begun. ``host`` is who the server must be."""
        name = host.rstrip(".")
        return self.context.wrap_socket(sock, do_handshake_on_connect=False, server_hostname=name or None)

    def refused_suite(self, sock: ssl.SSLSocket) -> str | None:
        """The cipher suite of the connection, if it is not one of ``ssl.cipher.suites``.

        OpenSSL's suites of TLS 1.3 cannot be chosen from Python, so the agreement is looked at.
        """
        agreed = (sock.cipher() or ("",))[0]
        wanted = self.settings.cipher_suites
        return agreed if wanted and agreed not in {openssl_name(suite) for suite in wanted} else None


def openssl_name(suite: str) -> str:
    """OpenSSL's name of a cipher suite: ``TLS_RSA_WITH_AES_128_CBC_SHA`` is ``AES128-SHA``."""
    found = _OLD_SUITE.fullmatch(suite)
    if found is None:
        return suite
    exchange, cipher = found[1].replace("_", "-"), found[2]
    cipher = (
        re.sub(r"^(AES|ARIA|CAMELLIA)_(\d+)", r"\1\2", cipher).replace("_CBC_", "_").replace("3DES_EDE", "DES_CBC3")
    )
    cipher = re.sub(r"^(CHACHA20_POLY1305)_SHA256$", r"\1", cipher).replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange}-{cipher}"


def _context(settings: TlsSettings, validate_only: bool) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_host_name
    # Every certificate in a trust store is an anchor for Java, intermediate ones too.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    _set_versions(context, settings)
    _set_suites(context, settings)
    if settings.trusted is None and not validate_only:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)  # takes tens of milliseconds
    if settings.trusted is not None:
        try:
            context.load_verify_locations(cadata=settings.trusted)
        except (ssl.SSLError, TypeError) as error:  # TypeError: not ASCII
            raise ConfigError("ssl.truststore.certificates", f"cannot be read: {_reason(error)}") from None
    if settings.certificate_chain is not None:
        _load_key(context, settings)
    return context


def _set_versions(context: ssl.SSLContext, settings: TlsSettings) -> None:
    order = list(VERSIONS)
    known = [name for name in order if name in settings.enabled_protocols]
    unknown = [name for name in settings.enabled_protocols if name not in VERSIONS]
    if unknown:
        raise ConfigError("ssl.enabled.protocols", f"{unknown[0]!r} is not one of {', '.join(order)}")
    if settings.protocol in VERSIONS:
        known = [name for name in known if order.index(name) <= order.index(settings.protocol)]
    elif settings.protocol != "TLS":
        raise ConfigError("ssl.protocol", f"{settings.protocol!r} is not one of TLS, {', '.join(order)}")
    if settings.cipher_suites:
        known = _versions_with_suites(known, settings.cipher_suites)
    if not known:
        raise ConfigError("ssl.enabled.protocols", "no TLS version remains with these settings")
    with warnings.catch_warnings():
        # Old versions are used only if the user has enabled them by name.
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = VERSIONS[known[0]], VERSIONS[known[-1]]
    if order.index(known[-1]) - order.index(known[0]) != len(known) - 1:
        raise ConfigError("ssl.enabled.protocols", f"{', '.join(known)} has a gap: the versions must be adjacent")


def _versions_with_suites(versions: Sequence[str], suites: Sequence[str]) -> list[str]:
    newest = any(_TLS_1_3_SUITE.fullmatch(suite) for suite in suites)
    older = any(not _TLS_1_3_SUITE.fullmatch(suite) for suite in suites)
    return [version for version in versions if (newest if version == "TLSv1.3" else older)]


def _set_suites(context: ssl.SSLContext, settings: TlsSettings) -> None:
    available = {suite["name"] for suite in context.get_ciphers()}
    older = []
    for suite in settings.cipher_suites:
        name = openssl_name(suite)
        if _TLS_1_3_SUITE.fullmatch(suite):
            is_known = name in available
        else:
            older.append(name)
            is_known = _takes(context, name)
        if not is_known:
            raise ConfigError("ssl.cipher.suites", f"OpenSSL has no suite {suite!r}")
    if older:
        context.set_ciphers(":".join(older))


def _takes(context: ssl.SSLContext, name: str) -> bool:
    """Whether OpenSSL knows the suite, which is then the only one of ``context``."""
    try:
        context.set_ciphers(name)
    except ssl.SSLError:
        return False
    return True


def _load_key(context: ssl.SSLContext, settings: TlsSettings) -> None:
    chain, key, password = settings.certificate_chain, settings.private_key, settings.key_password
    if key is None:
        raise ConfigError("ssl.keystore.key", "there is a certificate, but no private key for it")
    if password is None and "ENCRYPTED" in key.reveal():
        raise ConfigError("ssl.key.password", "the private key is encrypted; its password is needed")
    # Without a password OpenSSL would ask for one at the terminal.
    given = "" if password is None else password.reveal()
    with _file_of(f"{key.reveal()}\n{chain}".encode()) as path:
        try:
            context.load_cert_chain(path, password=given)
        except ssl.SSLError as error:
            option, what = _key_error(error)
        except ValueError:
            option, what = "ssl.key.password", "is too long for OpenSSL"
        else:
            return
    raise ConfigError(option, what)


def _key_error(error: ssl.SSLError) -> tuple[str, str]:
    reason: str = getattr(error, "reason", None) or ""
    if "MISMATCH" in reason:
        return "ssl.keystore.key", "does not belong to the certificate in the key store"
    if any(word in reason for word in ("DECRYPT", "PASSWORD")) or not reason:
        return "ssl.key.password", "does not open the private key, or the key is malformed"
    return "ssl.keystore.key", f"key or certificate cannot be used: {_reason(error)}"


@contextlib.contextmanager
def _file_of(data: bytes) -> Iterator[str]:
    """A path to ``data`` for a library that reads files only: in memory where the system can, else a private file."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        path, temporary = f"/proc/self/fd/{descriptor}", None
    else:
        descriptor, path = tempfile.mkstemp()  # readable by its owner alone
        temporary = path
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(data)
        yield path
    finally:
        os.close(descriptor)
        if temporary is not None:
            os.unlink(temporary)


def _reason(error: Exception) -> str:
    """OpenSSL's reason in words; never the text of an error, which may quote what was read."""
    return (getattr(error, "reason", None) or "malformed").replace("_", " ").lower()
