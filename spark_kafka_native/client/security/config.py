"""The client's ``ssl.*`` and ``sasl.*`` properties, and ``security.protocol``."""

# ruff: noqa: RUF009 -- the functions declare fields

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from spark_kafka_native.client.config_def import (
    INT64_MAX,
    boolean,
    choice,
    function_or_class,
    integer,
    names,
    number,
    optional_integer,
    password,
    text,
)
from spark_kafka_native.net.secret import Secret

_PROTOCOLS: Final = {name: name for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
_STORES: Final = {name: name for name in ("JKS", "PKCS12", "PEM")}
_TLS_VERSIONS: Final = {name: name for name in ("TLS", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3")}
_HOST_CHECKS: Final = {"https": "https", "": ""}
MECHANISMS: Final = ("GSSAPI", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SecurityConfig:
    """Security properties as plain values; secrets are of a type that never shows them."""

    security_protocol: str = choice(
        "PLAINTEXT", "Encryption and authentication of the connections to brokers.", _PROTOCOLS
    )

    # --- TLS
    ssl_protocol: str = choice("TLSv1.3", "Newest TLS version.", _TLS_VERSIONS)
    ssl_enabled_protocols: tuple[str, ...] = names(
        ("TLSv1.2", "TLSv1.3"), "TLS versions.", "TLSv1.2,TLSv1.3 or other versions"
    )
    ssl_cipher_suites: tuple[str, ...] | None = names(
        None, "Cipher suites by Java's names; none: OpenSSL's choice.", "names, separated by commas"
    )
    ssl_endpoint_identification_algorithm: str = choice(
        "https", "Whether a broker's certificate must be for its host name; empty: no.", _HOST_CHECKS
    )
    ssl_truststore_type: str = choice("JKS", "Kind of ssl.truststore.location; JKS reads PKCS12 too.", _STORES)
    ssl_truststore_location: str | None = text(
        None, "File of the trusted certificate authorities; none: those of the system.", may_be_empty=False
    )
    ssl_truststore_password: Secret | None = password("Password of ssl.truststore.location.")
    ssl_truststore_certificates: Secret | None = password("Certificates to trust, in PEM.", "PEM")
    ssl_keystore_type: str = choice("JKS", "Kind of ssl.keystore.location; JKS reads PKCS12 too.", _STORES)
    ssl_keystore_location: str | None = text(
        None, "File with this client's private key and certificate.", may_be_empty=False
    )
    ssl_keystore_password: Secret | None = password("Password of ssl.keystore.location.")
    ssl_keystore_key: Secret | None = password("This client's private key, in PEM.", "PEM")
    ssl_keystore_certificate_chain: Secret | None = password("This client's certificates, in PEM.", "PEM")
    ssl_key_password: Secret | None = password("Password of the private key.")

    # --- SASL
    sasl_mechanism: str = choice("GSSAPI", "Mechanism of the SASL authentication.", {name: name for name in MECHANISMS})
    sasl_jaas_config: Secret | None = password(
        "Login module and its options: user name and password, client id, keytab.", 'Module required name="value";'
    )
    sasl_client_callback_handler_class: str | None = text(
        None, "Accepted for AWS MSK IAM, whose Java client needs it.", may_be_empty=False
    )
    sasl_login_callback_handler_class: str | Callable[..., Any] | None = function_or_class(
        "A Python function that returns a token, as `module:function`; names of Kafka's own classes are accepted."
    )
    sasl_login_connect_timeout_ms: int | None = optional_integer("Longest wait for a connection to the token server.")
    sasl_login_read_timeout_ms: int | None = optional_integer("Longest wait for the token server's answer.")
    sasl_login_retry_backoff_ms: int = integer(
        100, "Pause before another request to the token server.", at_most=INT64_MAX
    )
    sasl_login_retry_backoff_max_ms: int = integer(
        10_000, "Bound of that pause, which doubles, and of all of them together.", at_most=INT64_MAX
    )
    sasl_login_refresh_window_factor: float = number(
        0.8, "Part of a token's life after which the next is fetched.", at_least=0.5, at_most=1.0
    )
    sasl_login_refresh_window_jitter: float = number(
        0.05, "Random part of its life added to that.", at_least=0.0, at_most=0.25
    )
    sasl_login_refresh_min_period_seconds: int = integer(
        60, "Least time between two tokens, if their life allows.", at_most=900
    )
    sasl_login_refresh_buffer_seconds: int = integer(
        300, "Time before a token's end by which the next is fetched, if its life allows.", at_most=3600
    )
    sasl_kerberos_service_name: str | None = text(
        None, "Name of the brokers' Kerberos principal, without the host.", may_be_empty=False
    )
    sasl_oauthbearer_token_endpoint_url: str | None = text(
        None, "Where tokens come from: an https:// or http:// address, or a file:// with a token.", may_be_empty=False
    )
    sasl_oauthbearer_client_credentials_client_id: str | None = text(
        None, "Client id for the token server; overrides the one in sasl.jaas.config.", may_be_empty=False
    )
    sasl_oauthbearer_client_credentials_client_secret: Secret | None = password("Client secret for the token server.")
    sasl_oauthbearer_scope: str | None = text(None, "Scope of the token request.", may_be_empty=False)
    sasl_oauthbearer_header_urlencode: bool = boolean(
        False, "Encode client id and secret as for a form before they are sent."
    )

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol in {"SSL", "SASL_SSL"}

    @property
    def uses_sasl(self) -> bool:
        """Whether connections are authenticated by SASL."""
        return self.security_protocol.startswith("SASL_")
