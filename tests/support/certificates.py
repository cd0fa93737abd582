"""Certificate authorities and certificates for tests, made in milliseconds and good for a day."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

HOSTS = ("localhost", "127.0.0.1")


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@dataclass(frozen=True)
class Identity:
    """A private key and the certificate that an authority has given to it."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuer: "x509.Certificate"

    @cached_property
    def chain_pem(self) -> str:
        return _pem(self.certificate)

    @cached_property
    def key_pem(self) -> str:
        return self._key_pem(serialization.NoEncryption())

    def encrypted_key_pem(self, password: str) -> str:
        return self._key_pem(serialization.BestAvailableEncryption(password.encode()))

    def _key_pem(self, encryption: serialization.KeySerializationEncryption) -> str:
        pem = self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        return pem.decode()

    def pkcs12(self, password: str) -> bytes:
        encryption = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_key_and_certificates(b"key", self.key, self.certificate, [self.issuer], encryption)


class Authority:
    """Signs certificates; trusting ``certificate_pem`` means trusting them."""

    def __init__(self, name: str = "Test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(name, self._key, name, (), is_authority=True)

    @property
    def certificate_pem(self) -> str:
        return _pem(self.certificate)

    def issue(self, name: str, hosts: tuple[str, ...] = (), *, days: int = 1) -> Identity:
        """A new key with a certificate for ``hosts``; ``days`` below 0 for one that has ended."""
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = self.certificate.subject.rfc4514_string().removeprefix("CN=")
        return Identity(key, self._sign(name, key, issuer, hosts, days=days), self.certificate)

    def trust_store_pkcs12(self, password: str) -> bytes:
        entry = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        encryption = serialization.BestAvailableEncryption(password.encode())
        return pkcs12.serialize_java_truststore([entry], encryption)

    def _sign(
        self,
        name: str,
        key: ec.EllipticCurvePrivateKey,
        issuer: str,
        hosts: tuple[str, ...],
        *,
        is_authority: bool = False,
        days: int = 1,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name(name))
            .issuer_name(_name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=10))
            .not_valid_after(now + datetime.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def server_context(
    identity: Identity, directory: Path, *, client_authority: Authority | None = None, newest: str = "TLSv1_3"
) -> ssl.SSLContext:
    """A server's TLS context; with ``client_authority`` clients must have a certificate of it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = ssl.TLSVersion[newest]
    path = directory / f"server-{identity.certificate.serial_number}.pem"
    path.write_text(identity.key_pem + identity.chain_pem)
    context.load_cert_chain(path)
    if client_authority is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=client_authority.certificate_pem)
    return context


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
