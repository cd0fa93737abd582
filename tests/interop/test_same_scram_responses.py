"""Credentials of SCRAM, and SASL itself: the bundled broker answers as Apache Kafka does."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from spark_kafka_native._net.sasl.scram import Scram
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from spark_kafka_native._protocol.messages.api_versions import ApiVersionsRequest
from spark_kafka_native._protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from spark_kafka_native._protocol.messages.metadata import MetadataRequest
from spark_kafka_native._protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from spark_kafka_native._protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.requests.conversation import Conversation
from tests.support.requests.raw_client import RawClient, request_bytes
from tests.support.requests.same_responses import Both, compare_brokers
from tests.support.servers.sasl_brokers import LEASE_MS, SaslServer, sasl_broker

pytestmark = pytest.mark.interop

SALT, SALTED = b"salt", bytes(range(32))
VERSIONS = ApiVersionsRequest(client_software_name="test", client_software_version="1")
METADATA = MetadataRequest(topics=())
RIGHT, WRONG = b"\0alice\0alice-hunter2", b"\0alice\0wrong"


@pytest.fixture(scope="module")
def sasl_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SaslServer, ...]]:
    with ExitStack() as stack:
        yield tuple(
            stack.enter_context(sasl_broker(kind, tmp_path_factory.mktemp(kind))) for kind in ("bundled", "apache")
        )


@pytest.fixture
def both(sasl_brokers: tuple[SaslServer, ...]) -> Iterator[Both]:
    ours, theirs = (Conversation(broker.bootstrap_servers) for broker in sasl_brokers)
    yield Both(ours, theirs)
    ours.close()
    theirs.close()


def upsertion(
    name: str, mechanism: int = 1, iterations: int = 4096, salt: bytes = SALT, salted: bytes = SALTED
) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
    )


def deletion(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def change(broker: Conversation, *items: ScramCredentialUpsertion | ScramCredentialDeletion) -> None:
    """Ask for changes; the codes by user are remembered."""
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(item for item in items if isinstance(item, ScramCredentialDeletion)),
        upsertions=tuple(item for item in items if isinstance(item, ScramCredentialUpsertion)),
    )
    broker.ask(request, 0, f"{items}")


def tell(broker: Conversation, *names: str, note: str = "") -> None:
    """Ask who there is."""
    request = DescribeUserScramCredentialsRequest(users=tuple(UserName(name=name) for name in names) or None)

    def read() -> object:
        response = broker.response(request, 0)
        found = sorted(
            (item.user, item.error_code, *sorted((info.mechanism, info.iterations) for info in item.credential_infos))
            for item in response.results
        )
        return response.error_code, found

    broker.look(f"DescribeUserScramCredentials {names} {note}", read)


@compare_brokers
def test_credentials_come_and_go(broker: Conversation) -> None:
    tell(broker, note="at first")
    change(broker, upsertion("dan"), upsertion("eve", 2, 16384))
    tell(broker, note="two more")
    tell(broker, "dan", "eve", "unknown", "dan")
    change(broker, upsertion("dan", 2), upsertion("dan é,=", 1, 8192))
    tell(broker, "dan", "dan é,=")
    change(broker, deletion("dan"), deletion("eve", 2), upsertion("fay"))
    tell(broker, note="some less")
    change(broker, deletion("dan", 2), deletion("fay"), deletion("dan é,="))
    tell(broker, note="in the end")


@compare_brokers
def test_what_is_refused(broker: Conversation) -> None:
    change(broker)
    for items in (
        (deletion("unknown"),),
        (deletion("alice", 0),),
        (deletion("alice", 3),),
        (deletion(""),),
        (upsertion("", 1),),
        (upsertion("gus", 0),),
        (upsertion("gus", 3),),
        (upsertion("gus", iterations=4095),),
        (upsertion("gus", iterations=16385),),
        (upsertion("gus", iterations=-1),),
        (upsertion("gus"), upsertion("gus", 2)),
        (upsertion("gus"), upsertion("gus"), upsertion("gus")),
        (deletion("gus"), upsertion("gus")),
        (deletion("alice"), upsertion("alice")),
        (deletion("alice"), deletion("alice", 2)),
        (upsertion("gus", iterations=1), upsertion("gus")),
        (deletion("unknown"), deletion("unknown")),
    ):
        change(broker, *items)
    tell(broker, "gus", "", note="nothing came of it")
    change(broker, upsertion("hal", salt=b""), deletion("unknown"), upsertion("hal2", salted=b"x"))
    tell(broker, "hal", "hal2")
    change(broker, deletion("hal"), deletion("hal2"))


class Login:
    """A connection to a listener with SASL, and what was answered on it."""

    def __init__(self, address: str) -> None:
        self.client = RawClient(address)
        self.said: list[object] = []

    def versions(self) -> None:
        self._note(lambda: self.client.ask(VERSIONS, 3).error_code)

    def shake(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        def ask() -> object:
            response = self.client.ask(SaslHandshakeRequest(mechanism=mechanism), version)
            return response.error_code, sorted(response.mechanisms)

        self._note(ask)

    def token(self, token: bytes, version: int = 2) -> None:
        def ask() -> object:
            response = self.client.ask(SaslAuthenticateRequest(auth_bytes=token), version)
            message = response.error_message if response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED else ""
            return response.error_code, bytes(response.auth_bytes), message, response.session_lifetime_ms

        self._note(ask)

    def scram(self, password: str, user: str = "alice") -> None:
        scram = Scram("SCRAM-SHA-256", user, Secret(password))

        def ask() -> object:
            token: bytes | None = scram.first()
            while token is not None:
                response = self.client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
                if response.error_code:
                    return response.error_code, response.error_message, bytes(response.auth_bytes)
                token = scram.reply(bytes(response.auth_bytes))
            return scram.complete

        self._note(ask)

    def bare(self, token: bytes) -> None:
        def ask() -> object:
            self.client.send(len(token).to_bytes(4) + token)
            return self.client.frame()

        self._note(ask)

    def metadata(self) -> None:
        def ask() -> object:
            self.client.send(request_bytes(METADATA, 9))
            return bool(self.client.frame())

        self._note(ask)

    def _note(self, ask: Callable[[], object]) -> None:
        try:
            self.said.append(ask())
        except OSError:
            self.said.append("closed")


@pytest.mark.parametrize(
    "steps",
    [
        "versions shake token:right metadata",
        "shake token:right metadata shake token:right metadata",
        "versions versions metadata",
        "metadata",
        "token:right",
        "shake shake",
        "shake token:wrong",
        "shake token:junk",
        "shake token:empty",
        "shake token:other",
        "shake:GSSAPI",
        "shake:SCRAM-SHA-256 scram:alice-hunter2 metadata",
        "shake:SCRAM-SHA-256 scram:wrong",
        "shake:SCRAM-SHA-256 token:junk",
        "shake0 bare:right metadata",
        "shake0 bare:wrong",
        "shake0:SCRAM-SHA-256 bare:junk",
        "shake0:nonsense",
    ],
)
@pytest.mark.parametrize("listener", ["SASL", "LEASE"])
def test_the_order_of_requests(sasl_brokers: tuple[SaslServer, ...], listener: str, steps: str) -> None:
    tokens = {"right": RIGHT, "wrong": WRONG, "junk": b"junk", "empty": b"", "other": b"bob\0alice\0alice-hunter2"}
    said = []
    for broker in sasl_brokers:
        login = Login(broker.servers_of(listener))
        for step in steps.split():
            what, _, which = step.partition(":")
            match what:
                case "shake" | "shake0":
                    login.shake(which or "PLAIN", version=0 if what == "shake0" else 1)
                case "token":
                    login.token(tokens[which])
                case "bare":
                    login.bare(tokens[which])
                case "scram":
                    login.scram(which)
                case _:
                    getattr(login, what)()
        login.client.sock.close()
        said.append(login.said)
    assert said[0] == said[1], steps


def test_where_sessions_last(sasl_brokers: tuple[SaslServer, ...]) -> None:
    for broker in sasl_brokers:
        login = Login(broker.servers_of("LEASE"))
        login.shake()
        login.token(RIGHT)
        assert login.said[-1] == (0, b"", "", LEASE_MS)
        login.client.sock.close()
