from pathlib import Path

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.settings import SettingError
from broker_embedded._testing.brokers import settings_with_users
from broker_embedded.testing import BrokerProcess, EmbeddedBroker
from spark_kafka_native._client.cluster.cluster import Cluster
from tests.support.clients.native import config_of

USERS = {"alice": "alice-hunter2", "bob.2": 'comma, "quote", \\ and ]'}
MODULES = {
    "PLAIN": "plain.PlainLoginModule",
    "SCRAM-SHA-256": "scram.ScramLoginModule",
    "SCRAM-SHA-512": "scram.ScramLoginModule",
}


def topics_seen_by(servers: str, user: str, mechanism: str) -> set[str]:
    password = USERS[user].replace("\\", "\\\\").replace('"', '\\"')
    module = f"org.apache.kafka.common.security.{MODULES[mechanism]}"
    options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_jaas_config": f'{module} required username="{user}" password="{password}";',
    }
    with Cluster(config_of(servers, **options)) as cluster:
        return set(cluster.metadata().topics)


@pytest.mark.parametrize("kind", [EmbeddedBroker, BrokerProcess])
def test_every_user_logs_in(kind: type[EmbeddedBroker | BrokerProcess], tmp_path: Path) -> None:
    with kind(tmp_path, topics={"t": 1}, users=USERS) as broker:
        servers = broker.servers_of("SASL_PLAINTEXT")
        assert broker.servers_of("PLAINTEXT") == broker.bootstrap_servers != servers
        for user in USERS:
            for mechanism in MODULES:
                assert topics_seen_by(servers, user, mechanism) == {"t"}
        broker.restart()
        assert broker.servers_of("SASL_PLAINTEXT") == servers
        assert topics_seen_by(servers, "alice", "SCRAM-SHA-256") == {"t"}
        with pytest.raises(ValueError, match="listener 'SSL'; its listeners are PLAINTEXT, SASL_PLAINTEXT"):
            broker.servers_of("SSL")


def test_there_are_no_servers_before_the_start() -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        EmbeddedBroker(users=USERS).servers_of("SASL_PLAINTEXT")


def test_users_come_on_top_of_settings() -> None:
    settings = {"listeners": "A://h:1", "add.scram": "SCRAM-SHA-256=[name=carol,password=c]",
                "listener.security.protocol.map": "A:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"}  # fmt: skip
    config = BrokerConfig.parse({**settings, **settings_with_users(settings, USERS)})
    assert [endpoint.name for endpoint in config.endpoints()] == ["A", "SASL_PLAINTEXT"]
    assert {user.user.name for user in config.first_users()} == {"carol", *USERS}
    sasl = config.sasl_of("SASL_PLAINTEXT")
    assert sasl is not None
    assert {name: word.reveal() for name, word in sasl.plain_users.items()} == USERS


@pytest.mark.parametrize("name", ["al ice", "", '"'])
def test_an_invalid_name_of_a_user_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match=rf"^users: '{name}' is not a name of letters, digits, "):
        EmbeddedBroker(users={name: "x"})


def test_an_empty_password_of_a_user_is_refused() -> None:
    with pytest.raises(SettingError, match=r"^users: the password of alice must not be empty$"):
        EmbeddedBroker(users={"alice": ""})
