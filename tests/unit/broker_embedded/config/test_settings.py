from dataclasses import dataclass

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.releases import RELEASE_NAMES
from broker_embedded._config.settings import (
    Setting,
    SettingError,
    format_value,
    parse_settings,
    refuse_unknown,
    setting,
    settings_of,
)
from broker_embedded._config.unused_settings import unused_settings
from broker_embedded._metadata.config_entries import ConfigType, config_type
from spark_kafka_native._net.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    num_partitions: int = setting(1, "How many.", at_least=1)
    free_number: int = setting(0, "Any.")
    auto_create: bool = setting(True, "Whether.")
    mode: str = setting("a", "Which.", choices=("a", "b"))
    minutes: int | None = setting(None, "Perhaps.", at_least=-1)
    ratio: float = setting(0.5, "What part.", at_least=0, at_most=1, dynamic=True)
    policies: tuple[str, ...] = setting(("a",), "Which of them.", choices=("a", "b"))
    names: tuple[str, ...] = setting((), "Whose.")
    password: Secret | None = setting(None, "A password.")  # a field


def known() -> dict[str, Setting]:
    return settings_of(Example)


def test_keys_are_field_names_with_dots() -> None:
    assert list(known()) == [
        "num.partitions",
        "free.number",
        "auto.create",
        "mode",
        "minutes",
        "ratio",
        "policies",
        "names",
        "password",
    ]
    assert [key for key, item in known().items() if item.dynamic] == ["ratio"]


@pytest.mark.parametrize(
    ("key", "given", "value"),
    [
        ("num.partitions", " 7 ", 7),
        ("num.partitions", 7, 7),
        ("free.number", "-5", -5),
        ("auto.create", "FALSE", False),
        ("auto.create", True, True),
        ("mode", " b ", "b"),
        ("minutes", "", None),
        ("minutes", None, None),
        ("minutes", "-1", -1),
        ("ratio", " 0.25 ", 0.25),
        ("ratio", 1, 1.0),
        ("policies", "a, b", ("a", "b")),
        ("policies", ["b"], ("b",)),
        ("policies", "", ()),
        ("names", "x,y", ("x", "y")),
    ],
)
def test_values_come_as_text_or_as_themselves(key: str, given: object, value: object) -> None:
    assert parse_settings(known(), {key: given}) == {key.replace(".", "_"): value}


@pytest.mark.parametrize(
    ("key", "given", "problem"),
    [
        ("num.partitions", "0", "0 is out of range 1..2147483647"),
        ("num.partitions", 2**31, "2147483648 is out of range 1..2147483647"),
        ("num.partitions", "many", "'many' is not a whole number"),
        ("num.partitions", True, "True is not a whole number"),
        ("num.partitions", 1.0, "1.0 is not a whole number"),
        ("num.partitions", None, "None is not a whole number"),
        ("auto.create", "yes", "'yes' is neither true nor false"),
        ("mode", "c", "'c' is not one of a, b"),
        ("mode", 3, "3 is not text"),
        ("minutes", "-2", "-2 is out of range -1..2147483647"),
        ("ratio", "half", "'half' is not a number"),
        ("ratio", "nan", "'nan' is not a number"),
        ("ratio", "1.5", "1.5 is out of range 0..1"),
        ("policies", "a,c", "'c' is not one of a, b"),
        ("policies", "a,", "'' is not one of a, b"),
        ("names", 3, "3 is not a list of texts"),
    ],
)
def test_bad_values_name_the_key(key: str, given: object, problem: str) -> None:
    with pytest.raises(SettingError) as caught:
        parse_settings(known(), {key: given})
    assert str(caught.value) == f"{key}: {problem}"


def test_an_unknown_key_suggests_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"^num\.partitons: no such setting; did you mean num\.partitions\?$"):
        refuse_unknown(["mode", "num.partitons"], known())
    with pytest.raises(SettingError, match=r"^zebra: no such setting$"):
        refuse_unknown(["zebra"], known())


def test_bounds_and_defaults_in_words() -> None:
    said = {key: (item.default_text, item.bounds) for key, item in known().items()}
    assert said == {
        "num.partitions": ("1", "1..2147483647"),
        "free.number": ("0", "..2147483647"),
        "auto.create": ("true", "true|false"),
        "mode": ("a", "a|b"),
        "minutes": ("", "-1..2147483647"),
        "ratio": ("0.5", "0..1"),
        "policies": ("a", "a,b"),
        "names": ("", ""),
        "password": ("", ""),
    }


def test_a_secret_setting_never_shows_its_value() -> None:
    (secret,) = (each for each in known().values() if each.is_secret)
    assert (secret.key, secret.parse(""), secret.default_text) == ("password", None, "")
    for given in (" hunter2 ", Secret("hunter2")):
        parsed = secret.parse(given)
        assert parsed == Secret("hunter2")
        assert "hunter2" not in format_value(parsed)


def test_no_setting_is_declared_twice() -> None:
    assert unused_settings().keys() & BrokerConfig.settings().keys() == set()


@pytest.mark.parametrize("key", unused_settings())
def test_each_unused_setting_has_no_effect_or_is_refused(key: str) -> None:
    setting = unused_settings()[key]
    assert bool(setting.no_effect) != bool(setting.refused)
    assert setting.doc[0].isupper()
    assert setting.doc.endswith(".")
    assert setting.since in {"", *RELEASE_NAMES}
    assert setting.parse(setting.default_text) == setting.default
    assert (setting.per_broker or setting.is_pool or setting.is_hidden) <= setting.dynamic


@pytest.mark.parametrize(
    ("key", "refused"),
    [
        ("zookeeper.set.acl", "true is refused: this broker does not authenticate to ZooKeeper."),
        ("zookeeper.ssl.protocol", "Any value but TLSv1.2 is refused: the connection to ZooKeeper has no TLS."),
        ("zookeeper.ssl.keystore.location", "Any value is refused: the connection to ZooKeeper has no TLS."),
    ],
)
def test_the_text_of_a_setting_says_which_value_is_refused(key: str, refused: str) -> None:
    setting = BrokerConfig.all_settings()[key]
    assert setting.full_doc == f"{setting.doc} {refused}"


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
        "sasl.login.refresh.window.jitter": ConfigType.DOUBLE,
        "sasl.login.refresh.buffer.seconds": ConfigType.SHORT,
        "ssl.keystore.password": ConfigType.PASSWORD,
        "telemetry.max.bytes": ConfigType.INT,
    }
    assert {key: config_type(known[key]) for key in types} == types
