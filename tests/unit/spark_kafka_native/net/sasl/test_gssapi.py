"""The order of GSSAPI tokens, with a fake library, because tickets need a KDC."""

import sys
import types
from typing import Any

import pytest

from spark_kafka_native._net.sasl.gssapi import Gssapi, KerberosLogin
from spark_kafka_native._net.sasl.mechanism import SaslError

LOGIN = KerberosLogin(service="kafka")


class GSSError(Exception):
    pass


class FakeContext:
    def __init__(self, **given: Any) -> None:
        self.given = given
        self.complete = False
        self.initiator_name = "alice@REALM"
        self.steps = 0

    def step(self, token: bytes = b"") -> bytes | None:
        self.steps += 1
        if token == b"forged":
            raise GSSError("bad token")
        self.complete = self.steps == 2
        return b"ticket" if self.steps == 1 else None

    def unwrap(self, token: bytes) -> Any:
        return types.SimpleNamespace(message=token.removeprefix(b"wrapped:"))

    def wrap(self, data: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return types.SimpleNamespace(message=b"wrapped:" + data)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Any:
    module: Any = types.ModuleType("gssapi")
    module.Name = lambda name, kind: (name, kind)
    module.NameType = types.SimpleNamespace(hostbased_service="host", kerberos_principal="principal")
    module.MechType = types.SimpleNamespace(kerberos="krb5")
    module.RequirementFlag = types.SimpleNamespace(mutual_authentication=2, integrity=32)
    module.exceptions = types.SimpleNamespace(GSSError=GSSError)
    module.Credentials = lambda **given: given
    module.contexts = []

    def security_context(**given: Any) -> FakeContext:
        module.contexts.append(FakeContext(**given))
        return module.contexts[-1]  # type: ignore[no-any-return]  # modules have no such attribute

    module.SecurityContext = security_context
    monkeypatch.setitem(sys.modules, "gssapi", module)
    return module


@pytest.mark.feature("security.gssapi")
def test_tickets_then_the_security_layer(library: Any) -> None:
    gssapi = Gssapi(LOGIN, "broker.example")
    assert gssapi.first() == b"ticket"
    assert gssapi.reply(b"their ticket") == b""
    assert not gssapi.complete
    assert gssapi.reply(b"wrapped:\x07\x00\x10\x00") == b"wrapped:\x01\x00\x00\x00alice@REALM"
    assert gssapi.complete
    assert gssapi.reply(b"") is None
    (context,) = library.contexts
    assert context.given["name"] == ("kafka@broker.example", "host")
    assert context.given["creds"] is None


@pytest.mark.parametrize(
    ("login", "store"),
    [
        (
            KerberosLogin(service="kafka", principal="alice@REALM", keytab="/etc/alice.keytab"),
            {"client_keytab": "/etc/alice.keytab", "ccache": "MEMORY:spark-kafka-native-alice@REALM"},
        ),
        (KerberosLogin(service="kafka", ticket_cache="/tmp/cache"), {"ccache": "/tmp/cache"}),
        (KerberosLogin(service="kafka", principal="alice@REALM"), None),
    ],
)
def test_kerberos_credentials_of_the_keytab_or_the_cache(
    library: Any, login: KerberosLogin, store: dict[str, str] | None
) -> None:
    Gssapi(login, "broker").first()
    given = library.contexts[0].given["creds"]
    assert given["store"] == store
    assert given["usage"] == "initiate"


def test_a_broker_that_wants_messages_wrapped(library: Any) -> None:
    gssapi = Gssapi(LOGIN, "broker")
    gssapi.first()
    gssapi.reply(b"their ticket")
    with pytest.raises(SaslError, match="wants messages wrapped"):
        gssapi.reply(b"wrapped:\x06\x00\x10\x00")


def test_an_error_of_the_library_is_in_the_message(library: Any) -> None:
    gssapi = Gssapi(LOGIN, "broker")
    gssapi.first()
    with pytest.raises(SaslError, match=r"kafka/broker did not prove itself \(bad token\)"):
        gssapi.reply(b"forged")


def test_a_broker_that_expects_too_many_tokens_is_an_error(library: Any) -> None:
    gssapi = Gssapi(LOGIN, "broker")
    gssapi.first()
    library.contexts[0].step = lambda _: b""
    for _ in range(8):
        assert gssapi.reply(b"more") == b""
    with pytest.raises(SaslError, match="expects more than"):
        gssapi.reply(b"more")


def test_a_missing_package_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    with pytest.raises(SaslError, match="kerberos"):
        Gssapi(LOGIN, "broker")
