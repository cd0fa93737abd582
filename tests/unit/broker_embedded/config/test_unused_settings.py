"""The table of Kafka's settings that this broker does not act on."""

import pytest

from broker_embedded.config.config import BrokerConfig
from broker_embedded.config.releases import RELEASE_NAMES
from broker_embedded.config.unused_settings import unused_settings
from broker_embedded.metadata.config_entries import ConfigType, config_type


def test_no_setting_is_declared_twice() -> None:
    assert unused_settings().keys() & BrokerConfig.settings().keys() == set()


@pytest.mark.parametrize("key", unused_settings())
def test_each_setting_says_what_it_is_and_what_becomes_of_it(key: str) -> None:
    setting = unused_settings()[key]
    assert bool(setting.no_effect) != bool(setting.refused)
    assert setting.doc[0].isupper()
    assert setting.doc.endswith(".")
    assert setting.since in {"", *RELEASE_NAMES}
    assert setting.parse(setting.default_text) == setting.default
    assert (setting.per_broker or setting.is_pool or setting.is_hidden) <= setting.dynamic


def test_cells_of_the_table() -> None:
    known = unused_settings()
    threads = known["num.io.threads"]
    assert (threads.default, threads.bounds, threads.is_pool, threads.per_broker) == (8, "1..2147483647", True, False)
    assert known["ssl.client.auth"].choices == ("required", "requested", "none")
    assert (known["ssl.client.auth"].dynamic, known["ssl.client.auth"].per_broker) == (True, True)
    assert known["group.share.max.size"].bounds == "1..1000"
    assert known["replica.fetch.min.bytes"].bounds == "-2147483648..2147483647"
    assert known["ssl.cipher.suites"].default == ()
    assert (known["authorizer.class.name"].default, known["replica.selector.class"].default) == ("", None)
    assert known["leader.replication.throttled.rate"].is_hidden
    assert known["remote.log.reader.threads"].since == "3.6"
    types = {
        "auto.leader.rebalance.enable": ConfigType.BOOLEAN,
        "metric.reporters": ConfigType.LIST,
        "principal.builder.class": ConfigType.CLASS,
        "replica.lag.time.max.ms": ConfigType.LONG,
        "replica.selector.class": ConfigType.STRING,
        "sasl.kerberos.ticket.renew.jitter": ConfigType.DOUBLE,
        "sasl.login.refresh.buffer.seconds": ConfigType.SHORT,
        "ssl.keystore.password": ConfigType.PASSWORD,
        "telemetry.max.bytes": ConfigType.INT,
    }
    assert {key: config_type(known[key]) for key in types} == types
