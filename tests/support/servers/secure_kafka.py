"""An Apache Kafka with a listener for each way to be secure, its users, certificates and stores.

Stores of the type JKS are made by Java's own keytool, on both sides of the wire; the others by `cryptography`.
"""

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.certificates import HOSTS, Authority, Identity
from tests.support.java import QUICK_START
from tests.support.programs import maven
from tests.support.servers.apache_kafka import ApacheKafka
from tests.support.servers.sasl_brokers import MODULES, SHORT_SESSIONS, USERS

STORE_PASSWORD = "store-hunter2"
LISTENERS = {
    "TLS": "SSL",
    "MTLS": "SSL",
    "ELSEWHERE": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "LEASE": "SASL_PLAINTEXT",
    "JWT": "SASL_PLAINTEXT",
}
"""ELSEWHERE has a certificate for another host, LEASE short sessions, JWT checks signatures of tokens."""

AUDIENCE = "kafka"

_VALIDATOR = f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"


class TokenIssuer:
    """Signs JSON web tokens that the listener JWT accepts."""

    def __init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)

    @property
    def jwks(self) -> str:
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "kid": "k1",
            "alg": "RS256",
            "use": "sig",
            "n": _number(numbers.n),
            "e": _number(numbers.e),
        }
        return json.dumps({"keys": [key]})

    def token(self, subject: str, *, seconds: int = 600, audience: str = AUDIENCE) -> str:
        now = int(time.time())
        claims = {"sub": subject, "aud": audience, "iss": "tests", "iat": now, "exp": now + seconds, "scope": "kafka"}
        signed = f"{_json({'alg': 'RS256', 'typ': 'JWT', 'kid': 'k1'})}.{_json(claims)}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_base64(signature)}"


@dataclass
class SecureKafka:
    """The cluster and all that a client needs to get in."""

    cluster: ApacheKafka
    directory: Path
    authority: Authority
    client: Identity
    issuer: TokenIssuer

    def servers(self, listener: str) -> str:
        return self.cluster.servers_of(listener)

    def jks_trust_store(self) -> Path:
        """A trust store with the authority, by keytool."""
        path, certificate = self.directory / "trust.jks", self.directory / "authority.pem"
        if not path.exists():
            certificate.write_text(self.authority.certificate_pem)
            keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(certificate), "-keystore", str(path))
        return path

    def jks_key_store(self, key_password: str = STORE_PASSWORD) -> Path:
        """The client's key, by keytool; the key's password may be another than the store's."""
        path, source = self.directory / "client.jks", self.directory / "client.p12"
        if not path.exists():
            source.write_bytes(self.client.pkcs12(STORE_PASSWORD))
            given = ["-srckeystore", str(source), "-srcstoretype", "PKCS12", "-srcstorepass", STORE_PASSWORD]
            more = ["-srcalias", "key", "-destkeypass", key_password, "-destkeystore", str(path)]
            keytool("-importkeystore", *given, *more, store_option="-deststorepass", type_option="-deststoretype")
        return path


def keytool(*arguments: str, store_option: str = "-storepass", type_option: str = "-storetype") -> None:
    """Java's keytool on a store of the type JKS."""
    tool = Path(maven.java()).resolve().with_name("keytool")
    command = [str(tool), *arguments, store_option, STORE_PASSWORD, type_option, "JKS"]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def keytool_unavailable() -> str | None:
    """Why there is no keytool, or None."""
    tool = Path(maven.java()).resolve().with_name("keytool")
    return None if shutil.which(str(tool)) else "this Java has no keytool"


@contextmanager
def secure_kafka(directory: Path) -> Iterator[SecureKafka]:
    """Such a cluster, while the block lasts."""
    authority, issuer = Authority(), TokenIssuer()
    stores = {"here": authority.issue("broker", HOSTS), "elsewhere": authority.issue("broker", ("elsewhere.test",))}
    for name, identity in stores.items():
        (directory / f"{name}.p12").write_bytes(identity.pkcs12(STORE_PASSWORD))
    (directory / "trust.p12").write_bytes(authority.trust_store_pkcs12(STORE_PASSWORD))
    jwks = directory / "jwks.json"
    jwks.write_text(issuer.jwks)
    scram = [f"{name}=[name={user},password={word}]" for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
             for user, word in USERS.items() if "," not in word]  # fmt: skip
    cluster = ApacheKafka(
        settings=_settings(directory, jwks),
        listeners=LISTENERS,
        format_options=[part for credential in scram for part in ("--add-scram", credential)],
        jvm_options=(*QUICK_START, f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}"),
    )
    with cluster:
        yield SecureKafka(cluster, directory, authority, authority.issue("client"), issuer)


def _settings(directory: Path, jwks: Path) -> dict[str, str]:
    trust = {"ssl.truststore.type": "PKCS12", "ssl.truststore.location": str(directory / "trust.p12"),
             "ssl.truststore.password": STORE_PASSWORD}  # fmt: skip
    users = " ".join(f'user_{user}="{word}"' for user, word in USERS.items())
    plain = f"{MODULES}.plain.PlainLoginModule required {users};"
    scram = f"{MODULES}.scram.ScramLoginModule required;"
    unsecured = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
    lease = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER", "plain.sasl.jaas.config": plain,
             "scram-sha-256.sasl.jaas.config": scram, "oauthbearer.sasl.jaas.config": unsecured}  # fmt: skip
    listeners: dict[str, dict[str, str]] = {
        "tls": _store(directory, "here"),
        "mtls": {**_store(directory, "here"), **trust, "ssl.client.auth": "required"},
        "elsewhere": _store(directory, "elsewhere"),
        "sasl": {
            **lease,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "scram-sha-512.sasl.jaas.config": scram,
        },
        "sasltls": {**lease, **_store(directory, "here")},
        "lease": {**lease, **SHORT_SESSIONS},
        "jwt": {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
            "oauthbearer.sasl.server.callback.handler.class": _VALIDATOR,
            "oauthbearer.sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
            "oauthbearer.sasl.oauthbearer.expected.audience": AUDIENCE,
        },
    }
    named = {f"listener.name.{name}.{key}": value for name, part in listeners.items() for key, value in part.items()}
    return {
        **named,
        "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "delegation.token.secret.key": "for-tests-only",
    }


def _store(directory: Path, name: str) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(directory / f"{name}.p12"),
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
    }


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def _json(value: Any) -> str:
    return _base64(json.dumps(value).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
