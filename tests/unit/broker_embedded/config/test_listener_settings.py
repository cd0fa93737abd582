from collections.abc import Mapping

import pytest

from broker_embedded._config.addresses import Endpoint, addresses_of, format_address, parse_address
from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.listener_settings import MECHANISMS, apart, prefixed_settings
from broker_embedded._config.settings import SettingError
from broker_embedded._security.session import SaslListener

LISTENERS = {"listeners": "PLAINTEXT://127.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:2"}
OWN = "listener.name.sasl_plaintext."
PLAIN_USERS = f"{OWN}plain.sasl.jaas.config"
JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="broker" password="b-hunter2" '
    'user_alice="a-hunter2" user_bob="";'
)
SCRAM_JAAS = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def sasl_with(settings: Mapping[str, object]) -> SaslListener:
    found = BrokerConfig.parse({**LISTENERS, **settings}).sasl_of("SASL_PLAINTEXT")
    assert found is not None
    return found


def test_a_listener_without_sasl_has_no_mechanisms() -> None:
    assert BrokerConfig.parse({}).sasl_of("PLAINTEXT") is None
    assert BrokerConfig.parse(LISTENERS).sasl_of("PLAINTEXT") is None
    assert BrokerConfig.parse(LISTENERS).sasl_of("OTHER") is None


def test_sasl_defaults_of_a_listener() -> None:
    sasl = sasl_with({})
    assert sasl.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512")
    assert sasl.max_reauth_ms == dict.fromkeys(MECHANISMS, 0)
    assert sasl.max_receive_bytes == 524288


def test_users_of_plain() -> None:
    sasl = sasl_with({PLAIN_USERS: JAAS})
    assert sasl.mechanisms == MECHANISMS
    assert {name: word.reveal() for name, word in sasl.plain_users.items()} == {"alice": "a-hunter2", "bob": ""}


def test_a_listener_goes_by_its_own_settings_first() -> None:
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "connections.max.reauth.ms": "1000",
        "sasl.server.max.receive.size": 5000,
        f"{OWN}sasl.enabled.mechanisms": "SCRAM-SHA-256, SCRAM-SHA-512,PLAIN",
        f"{OWN}connections.max.reauth.ms": 2000,
        f"{OWN}scram-sha-512.connections.max.reauth.ms": "3000",
        f"{OWN}scram-sha-512.sasl.jaas.config": SCRAM_JAAS,
        PLAIN_USERS: JAAS,
        "listeners": "SASL_PLAINTEXT://:1,INSIDE://:2",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,INSIDE:SASL_PLAINTEXT",
    }
    sasl = sasl_with(settings)
    assert sasl.mechanisms == ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
    assert sasl.max_reauth_ms == {"PLAIN": 2000, "SCRAM-SHA-256": 2000, "SCRAM-SHA-512": 3000}
    assert sasl.max_receive_bytes == 5000
    other = BrokerConfig.parse(settings).sasl_of("INSIDE")
    assert other is not None
    assert (other.mechanisms, other.max_reauth_ms) == (("SCRAM-SHA-256",), dict.fromkeys(MECHANISMS, 1000))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "sasl.enabled.mechanisms: 'GSSAPI' is not one of PLAIN,"),
        ({f"{OWN}sasl.enabled.mechanisms": "GSSAPI"}, f"{OWN}sasl.enabled.mechanisms: 'GSSAPI' is not one of"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, f"{PLAIN_USERS}: PLAIN needs users"),
        ({PLAIN_USERS: "hunter2"}, f"{PLAIN_USERS}: is not of the form"),
        ({PLAIN_USERS: SCRAM_JAAS}, f"{PLAIN_USERS}: the login module must be PlainLoginModule, not ScramLoginModule"),
        (
            {f"{OWN}scram-sha-256.sasl.jaas.config": JAAS},
            "the login module must be ScramLoginModule, not PlainLoginModule",
        ),
        ({f"{OWN}plain.connections.max.reauth.ms": "-1"}, "-1 is out of range"),
        ({f"{OWN}sasl.enabled.mechanism": "PLAIN"}, "no such setting; did you mean"),
        ({f"{OWN}num.partitions": "2"}, f"{OWN}num.partitions: no such setting"),
        ({"listener.name.other.sasl.enabled.mechanisms": "PLAIN"}, "listener other is not in listeners"),
        ({"listener.name.plaintext.connections.max.reauth.ms": "1"}, "the listener has no SASL"),
        ({"listener.name.": "1"}, "listener.name.: must be listener.name.LISTENER.SETTING"),
        ({f"{OWN}connections.max.reauth.ms": None}, "with a string"),
        ({"as.version": "0.9"}, "SASL_PLAINTEXT has SASL, which Kafka 0.9 .as.version. does not have"),
        ({"add.scram": "alice:hunter2"}, "add.scram: the text from character 1 on is not a user"),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_SSL"},
            "SASL_SSL .* not supported",
        ),
    ],
)
def test_unsupported_listener_settings_are_refused(settings: dict[str, object], words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        BrokerConfig.parse({**LISTENERS, **settings})
    assert "hunter2" not in str(caught.value)


def test_secrets_do_not_appear_in_texts() -> None:
    users = "SCRAM-SHA-256=[name=alice,password=s-hunter2]"
    config = BrokerConfig.parse({**LISTENERS, PLAIN_USERS: JAAS, "add.scram": users})
    assert "hunter2" not in repr(config)
    assert "hunter2" not in str(config.to_properties())
    assert config.given["add.scram"] == "(hidden)"
    assert [user.user.name for user in config.first_users()] == ["alice"]


def test_settings_that_a_listener_may_have() -> None:
    keys = [key.removeprefix("listener.name.LISTENER.") for key in prefixed_settings()]
    assert keys[:3] == ["sasl.enabled.mechanisms", "sasl.server.max.receive.size", "connections.max.reauth.ms"]
    assert "plain.sasl.jaas.config" in keys
    assert "scram-sha-512.connections.max.reauth.ms" in keys
    assert all(setting.doc for setting in prefixed_settings().values())


def test_settings_are_taken_apart() -> None:
    common, own = apart({"a": 1, "listener.name.X.b.c": 2, "listener.name.x.d": "3"})
    assert common == {"a": 1}
    assert {key: value.reveal() for key, value in own["x"].items()} == {"b.c": "2", "d": "3"}


@pytest.mark.parametrize("text", ["localhost:0", "127.0.0.1:9092", "[::1]:9092", ":9092"])
def test_the_text_of_an_address_is_the_one_that_was_parsed(text: str) -> None:
    assert format_address(*parse_address("--listen", text)) == text


@pytest.mark.parametrize("text", ["localhost", "localhost:", "localhost:-1", "::1:9092"])
def test_an_invalid_address_is_refused_with_its_text(text: str) -> None:
    with pytest.raises(SettingError, match=f"--listen: '{text}' is not HOST:PORT"):
        parse_address("--listen", text)


def test_a_port_out_of_range_is_refused_with_its_bounds() -> None:
    with pytest.raises(SettingError) as refused:
        parse_address("--listen", "localhost:65536")
    problem = "'65536' is not a port, which is a number from 0 to 65535"
    assert str(refused.value) == f"--listen: 'localhost:65536': {problem}"


@pytest.mark.parametrize("text", ["PLAINTEXT://127.0.0.1:9092", "INSIDE://[::1]:0", "OUTSIDE://:9093"])
def test_endpoints_have_a_name_too(text: str) -> None:
    endpoint = Endpoint.parse("listeners", f" {text} ")
    assert f"{endpoint.name}://{endpoint.address}" == text
    with pytest.raises(SettingError, match="is not NAME://HOST:PORT"):
        Endpoint.parse("listeners", text.partition("://")[2])


def test_an_address_is_its_own_and_a_host_has_those_that_the_system_finds() -> None:
    assert addresses_of("192.0.2.7") == {"192.0.2.7"}
    assert addresses_of("0:0:0:0:0:0:0:1") == {"::1"}
    assert addresses_of("localhost") & {"127.0.0.1", "::1"}
    assert addresses_of("no-such-host.invalid") == set()
    assert addresses_of("a" * 100 + ".invalid") == set()
