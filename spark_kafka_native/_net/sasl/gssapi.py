"""GSSAPI (RFC 4752): Kerberos tickets, by the package ``gssapi`` (the extra ``kerberos``).

The library makes the tokens. This module has their order, and agrees that messages are not wrapped afterwards.
"""

import importlib
from dataclasses import dataclass
from typing import Any, Final

from spark_kafka_native._extras import install_hint
from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.secret import Secret

_NO_SECURITY_LAYER: Final = 1
_MAX_TOKENS: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KerberosLogin:
    """Whose tickets are used. Without a keytab: those of a ticket cache, the user's own if None."""

    service: str
    principal: str | None = None
    keytab: str | None = None
    ticket_cache: str | None = None


class Gssapi:
    """One exchange with one broker."""

    name = "GSSAPI"
    refusal = ""
    secrets: tuple[Secret, ...] = ()

    def __init__(self, login: KerberosLogin, host: str) -> None:
        """Raises SaslError: the package is missing."""
        self._login = login
        self._host = host
        try:
            self._gssapi: Any = importlib.import_module("gssapi")
        except ImportError as error:
            needed = install_hint("gssapi", "kerberos")
            reason = f"GSSAPI needs {needed}; the machine needs MIT Kerberos' libraries ({error})"
            raise SaslError(reason, "sasl.mechanism", local=True) from error
        self._context: Any = None
        self._tokens = 0
        self._agreed = False

    @property
    def complete(self) -> bool:
        """Whether both sides are known to each other and agree on a security layer."""
        return self._agreed

    def first(self) -> bytes:
        """The ticket for the broker. Raises SaslError: there is none to be had."""
        gssapi = self._gssapi
        with _Explained(gssapi, f"no ticket for {self._login.service}/{self._host}"):
            target = gssapi.Name(f"{self._login.service}@{self._host}", gssapi.NameType.hostbased_service)
            self._context = gssapi.SecurityContext(
                name=target,
                creds=self._credentials(),
                usage="initiate",
                mech=gssapi.MechType.kerberos,
                flags=[gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity],
            )
            return bytes(self._context.step() or b"")

    def reply(self, challenge: bytes) -> bytes | None:
        """The next token; once both sides are known, the security layer: none. Raises SaslError."""
        if self._agreed:
            return None
        self._tokens += 1
        if self._tokens > _MAX_TOKENS:
            raise SaslError(f"GSSAPI: the broker expects more than {_MAX_TOKENS} tokens")
        with _Explained(self._gssapi, f"{self._login.service}/{self._host} did not prove itself"):
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            return self._agree(challenge)

    def _agree(self, challenge: bytes) -> bytes:
        """Answer the offered security layers: none is used, and the principal is the authorization id."""
        offer = bytes(self._context.unwrap(challenge).message)
        if len(offer) != 4 or not offer[0] & _NO_SECURITY_LAYER:
            raise SaslError("GSSAPI: the broker wants messages wrapped, which Kafka does not")
        response = bytes((_NO_SECURITY_LAYER, 0, 0, 0)) + str(self._context.initiator_name).encode()
        self._agreed = True
        return bytes(self._context.wrap(response, encrypt=False).message)

    def _credentials(self) -> Any:
        login, gssapi = self._login, self._gssapi
        if login.keytab is None and login.ticket_cache is None and login.principal is None:
            return None  # the user's own
        store = {}
        if login.keytab is not None:
            # Tickets from a keytab stay in memory: no file is left, and the user's own cache is not overwritten.
            store = {
                "client_keytab": login.keytab,
                "ccache": f"MEMORY:spark-kafka-native-{login.principal or login.keytab}",
            }
        if login.ticket_cache is not None:
            store["ccache"] = login.ticket_cache
        name = None
        if login.principal is not None:
            name = gssapi.Name(login.principal, gssapi.NameType.kerberos_principal)
        return gssapi.Credentials(name=name, usage="initiate", store=store or None)


class _Explained:
    def __init__(self, gssapi: Any, what: str) -> None:
        self._errors = gssapi.exceptions.GSSError
        self._what = what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._errors):
            raise SaslError(f"GSSAPI: {self._what} ({error})") from error
