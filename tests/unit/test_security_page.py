"""docs/security.md: its examples are accepted, and what it names is there."""

import re
from pathlib import Path
from typing import Any

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.listener_settings import prefixed_settings
from broker_embedded._tools.server_properties import REFUSED as REFUSED_OF_SERVERS
from broker_embedded._tools.server_properties import understand
from spark_kafka_native._client.config import PROPERTIES, REFUSED, ClientConfig

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
OF_BROKERS = BrokerConfig.settings() | prefixed_settings()
IGNORED_OF_SERVERS = {
    "early.start.listeners": "PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "security.inter.broker.protocol": "SASL_SSL",
    "ssl.client.auth": "required",
    "super.users": "User:alice",
}
NOT_SECURITY = {
    "broker.id",
    "controller.listener.names",
    "cordoned.log.dirs",
    "log.dir",
    "remote.log.storage.system.enable",
    "transaction.two.phase.commit.enable",
}
"""Settings that are refused and that docs/options.md alone names."""
NOT_SECURITY |= {name for name in REFUSED_OF_SERVERS if name.startswith(("zookeeper.ssl.", "zookeeper.client"))}
NOT_SECURITY |= {"zookeeper.metadata.migration.enable"}
BEFORE = {"password": "x", "trust_password": "x", "store_password": "x", "secret": "x"}


@pytest.mark.parametrize("block", [block for block in BLOCKS if "options = {" in block])
def test_examples_are_accepted(block: str) -> None:
    given: dict[str, Any] = dict(BEFORE)
    exec(block, given)
    properties = {name.removeprefix("kafka."): value for name, value in given["options"].items()}
    assert ClientConfig.parse({"bootstrap.servers": "broker:9093"} | properties).given >= properties.keys()


def test_properties_that_it_names_are_there() -> None:
    named = set(re.findall(r"((?:ssl|sasl|security)\.[a-z]+(?:\.[a-z]+)*)(?![A-Za-z.])", PAGE))
    assert len(named) > 15
    families = {"ssl.truststore", "ssl.keystore", "sasl.oauthbearer", "sasl.oauthbearer.assertion"}
    for name in {name for name in named if not name.startswith("security.auth")} - families:
        of_server = name in REFUSED_OF_SERVERS or name in IGNORED_OF_SERVERS
        assert of_server or name in PROPERTIES or name in REFUSED or any(key.endswith(name) for key in OF_BROKERS), name


def test_settings_of_a_server_properties_are_refused_or_ignored_as_the_table_says() -> None:
    section = PAGE.partition("### Security settings of a server.properties\n")[2].partition("\n## ")[0]
    cells = [[cell.strip() for cell in row.split("|")[1:3]] for row in section.splitlines() if row.startswith("| `")]
    names = {name: decision for first, decision in cells for name in re.findall(r"`([a-z.]+[a-z])`", first)}
    refused = {name for name, decision in names.items() if "refuses" in decision}
    assert refused >= REFUSED_OF_SERVERS.keys() - NOT_SECURITY
    assert not refused & NOT_SECURITY
    for name, value in IGNORED_OF_SERVERS.items():
        assert "ignores" in names[name]
        understand({name: value})
