import pytest

from spark_kafka_native._client.consumer.offsets import EARLIEST, LATEST
from spark_kafka_native._net.errors import ConfigError
from spark_kafka_native._record_clients.consumer.group_config import (
    OLD_NAMES,
    PROPERTIES,
    WITHOUT_EFFECT,
    ConsumerConfig,
)
from spark_kafka_native._record_clients.deserializers import string_decoder

MINIMAL = {"bootstrap.servers": "localhost:9092", "group.id": "g"}
JAVA = "org.apache.kafka.clients.consumer."


WRONG: dict[str, tuple[object, ...]] = {
    "group.id": (" ",),
    "group.protocol": ("new", ""),
    "group.remote.assignor": (" ",),
    "group.instance.id": (" ",),
    "partition.assignment.strategy": ("", ",", "range,best", f"{JAVA}BestAssignor"),
    "zookeeper.sync.time.ms": (0, -1, "soon"),
    "session.timeout.ms": (0, -1, 2**31, "soon", 1.5, True),
    "heartbeat.interval.ms": (0, -1, 2**31),
    "max.poll.interval.ms": (0, -1, 2**31),
    "enable.auto.commit": ("yes", 1, ""),
    "auto.commit.interval.ms": (-1, 2**31),
    "auto.offset.reset": ("soon", "", "SMALLEST", "by_duration:PT1H"),
    "exclude.internal.topics": ("yes", 0),
    "consumer.timeout.ms": (-2, 2**31),
    "key.deserializer": ("x.Decoder", "json:nothing", 5),
    "value.deserializer": ("x.Decoder", "json:nothing", 5),
    "consumer.id": (" ",),
    "offsets.storage": ("disk", ""),
    "dual.commit.enabled": ("yes", 1),
    "rebalance.max.retries": (0, 2**31),
    "rebalance.backoff.ms": (0, 2**31),
}


def parsed(**options: object) -> ConsumerConfig:
    return ConsumerConfig.parse(MINIMAL | {name.replace("_", "."): value for name, value in options.items()})


def test_defaults_are_kafkas() -> None:
    config = ConsumerConfig.parse(MINIMAL)
    assert config.group_id == "g"
    assert (config.group_protocol, config.group_remote_assignor, config.group_instance_id) == ("classic", None, None)
    assert config.partition_assignment_strategy == ("range", "cooperative-sticky")
    assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (45_000, 3_000)
    assert config.max_poll_interval_ms == 300_000
    assert (config.enable_auto_commit, config.auto_commit_interval_ms) == (True, 5_000)
    assert config.auto_offset_reset == LATEST
    assert config.exclude_internal_topics
    assert config.consumer_timeout_ms == -1


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("group.protocol", "Consumer", "consumer"),
        ("group.instance.id", "one", "one"),
        ("session.timeout.ms", "2147483647", 2**31 - 1),
        ("heartbeat.interval.ms", 1, 1),
        ("max.poll.interval.ms", 1, 1),
        ("enable.auto.commit", "False", False),
        ("auto.commit.interval.ms", 0, 0),
        ("auto.offset.reset", "earliest", EARLIEST),
        ("auto.offset.reset", "latest", LATEST),
        ("auto.offset.reset", "none", None),
        ("exclude.internal.topics", "false", False),
        ("consumer.timeout.ms", "-1", -1),
        ("consumer.timeout.ms", 0, 0),
        ("key.deserializer", int, int),
        ("value.deserializer", "kafka.serializer.StringDecoder", string_decoder),
    ],
)
def test_properties_are_read(name: str, value: object, expected: object) -> None:
    assert getattr(ConsumerConfig.parse({**MINIMAL, name.upper(): value}), name.replace(".", "_")) == expected


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_a_value_out_of_bounds_is_an_error_that_names_the_property(name: str, value: object) -> None:
    with pytest.raises(ConfigError) as raised:
        ConsumerConfig.parse({**MINIMAL, name: value})
    assert raised.value.option == name


def test_every_property_has_a_wrong_value() -> None:
    assert set(WRONG) == set(PROPERTIES)


@pytest.mark.parametrize("options", [{}, {"bootstrap.servers": "localhost:9092"}])
def test_a_consumer_without_a_group_is_an_error(options: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"^group\.id: is required$"):
        ConsumerConfig.parse(options)


@pytest.mark.parametrize("name", ["group.id", "groupid"])
def test_a_group_that_is_none_is_an_error_that_does_not_say_to_leave_it_out(name: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{name}: is required, and must not be None$"):
        ConsumerConfig.parse({"bootstrap.servers": "localhost:9092", name: None})


def test_a_consumer_without_brokers_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers: is required"):
        ConsumerConfig.parse({"group.id": "g"})


def test_options_that_are_no_mapping_are_an_error() -> None:
    with pytest.raises(TypeError, match="options must be a mapping of property names to values, not list"):
        ConsumerConfig.parse([("group.id", "g")])  # type: ignore[arg-type]  # no mapping is meant


def test_brokers_in_zookeeper() -> None:
    config = ConsumerConfig.parse({"zk.connect": "localhost:2181/kafka", "groupid": "g"})
    assert str(config.discovery.zookeeper_connect) == "localhost:2181/kafka"


@pytest.mark.parametrize(("heartbeat_ms", "session_ms"), [(45_000, None), (5, "5"), (6, 5), (None, 3_000)])
def test_heartbeats_are_more_frequent_than_the_session_timeout(heartbeat_ms: object, session_ms: object) -> None:
    given = {"heartbeat.interval.ms": heartbeat_ms, "session.timeout.ms": session_ms}
    with pytest.raises(ConfigError, match=r"^heartbeat\.interval\.ms: \d+ must be less than session\.timeout\.ms \("):
        ConsumerConfig.parse(MINIMAL | {name: value for name, value in given.items() if value is not None})


# --- names and values of the Scala consumers


@pytest.mark.parametrize(
    ("old", "value", "field", "expected"),
    [
        ("auto.commit.enable", "false", "enable_auto_commit", False),
        ("autocommit.enable", "false", "enable_auto_commit", False),
        ("autocommit.interval.ms", "7", "auto_commit_interval_ms", 7),
        ("autooffset.reset", "smallest", "auto_offset_reset", EARLIEST),
        ("autooffset.reset", "largest", "auto_offset_reset", LATEST),
        ("autooffset.reset", "earliest", "auto_offset_reset", EARLIEST),
        ("auto.offset.reset", "smallest", "auto_offset_reset", EARLIEST),
        ("auto.offset.reset", " largest ", "auto_offset_reset", LATEST),
    ],
)
def test_names_and_values_of_the_scala_consumers_are_taken(old: str, value: str, field: str, expected: object) -> None:
    assert getattr(ConsumerConfig.parse({**MINIMAL, old: value}), field) == expected


@pytest.mark.parametrize("name", ["group.id", "groupid", "Group.Id", "GroupId"])
def test_the_group_is_taken_by_each_of_its_names(name: str) -> None:
    assert ConsumerConfig.parse({"bootstrap.servers": "localhost:9092", name: " reports "}).group_id == "reports"


@pytest.mark.parametrize("old", ["socket.timeout.ms", "socket.buffersize", "fetch.size", "fetch.wait.max.ms"])
def test_names_of_the_simple_consumer_are_taken(old: str) -> None:
    client = ConsumerConfig.parse({**MINIMAL, old: "7000"}).client
    assert getattr(client, OLD_NAMES[old].replace(".", "_")) == 7000


def test_every_old_name_has_a_property_of_today() -> None:
    client = {field.replace("_", ".") for field in ConsumerConfig.parse(MINIMAL).client.__dataclass_fields__}
    assert set(OLD_NAMES.values()) - client - set(PROPERTIES) == set()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"auto.commit.enable": "maybe"}, "auto.commit.enable: 'maybe' is neither true nor false"),
        ({"AutoCommit.Interval.Ms": -1}, "autocommit.interval.ms: -1 is out of bounds; expected at least 0"),
        ({"autooffset.reset": "first"}, "autooffset.reset: 'first' is not one of latest, earliest, none"),
        ({"fetch.size": "much"}, "fetch.size: 'much' is not an integer"),
        ({"autooffset.reset": "smallest", "auto.offset.reset": "latest"}, "auto.offset.reset: given twice"),
        ({"groupid": "other"}, "group.id: given twice, as 'group.id' and 'groupid'"),
        ({"fetch.sise": 5}, "fetch.sise: is not a property of the consumer; did you mean fetch.size"),
        ({"kafka.auto.offset.reset": "latest"}, "is an option of Spark; the property is auto.offset.reset"),
        ({"interceptor.classes": "x"}, "interceptor.classes: is not supported"),
        ({"linger": 5}, "linger: is not a property of the consumer"),
        ({"group.instance.id": None}, "group.instance.id: must not be None; leave it out"),
        ({"client.id": b"a"}, "client.id: must not be bytes"),
        (
            {"partition.assignment.strategy": ["range"]},
            "partition.assignment.strategy: must be str, names separated by commas, not list",
        ),
        ({"partition.assignment.strategy": "best"}, "'best' is not a list of range, roundrobin, sticky, cooperative-"),
    ],
)
def test_errors_name_options_as_the_user_wrote_them(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        ConsumerConfig.parse(MINIMAL | options)
    assert message in str(raised.value)


# --- assignors


@pytest.mark.parametrize(
    ("value", "names"),
    [
        ("range", ("range",)),
        ("RoundRobin", ("roundrobin",)),
        (f"{JAVA}RangeAssignor", ("range",)),
        (f"{JAVA}RoundRobinAssignor", ("roundrobin",)),
        (f"{JAVA}StickyAssignor", ("sticky",)),
        (f"{JAVA}CooperativeStickyAssignor", ("cooperative-sticky",)),
        (f" {JAVA}StickyAssignor , range,", ("sticky", "range")),
        (f"range,{JAVA}RangeAssignor,sticky", ("range", "sticky")),
    ],
)
def test_assignors_are_names_or_kafkas_classes(value: str, names: tuple[str, ...]) -> None:
    assert parsed(partition_assignment_strategy=value).partition_assignment_strategy == names


# --- the member


def test_the_member_has_the_settings_of_the_consumer() -> None:
    config = parsed(
        group_instance_id="one",
        session_timeout_ms=6_000,
        heartbeat_interval_ms=1_000,
        max_poll_interval_ms=60_000,
        request_timeout_ms=7_000,
        partition_assignment_strategy="sticky",
        client_rack="a",
    )
    member = config.membership
    assert (member.group_id, member.instance_id, member.remote_assignor, member.rack) == ("g", "one", None, "a")
    assert (member.session_timeout_ms, member.heartbeat_interval_ms) == (6_000, 1_000)
    assert (member.rebalance_timeout_ms, member.request_timeout_ms) == (60_000, 7_000)
    assert member.assignors == ("sticky",)
    assert parsed(group_protocol="consumer", group_remote_assignor="range").membership.remote_assignor == "range"


def test_a_member_without_a_rack_names_none() -> None:
    assert parsed().membership.rack is None


@pytest.mark.parametrize("name", WITHOUT_EFFECT)
def test_properties_without_effect_are_ignored_with_a_warning(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert ConsumerConfig.parse(MINIMAL | {name: "5"}) == ConsumerConfig.parse(MINIMAL)
    assert f"property {name} of the consumer has no effect: {WITHOUT_EFFECT[name]}" in caplog.text


# --- groups in ZooKeeper

IN_ZOOKEEPER = {"zookeeper.connect": "localhost:2181/kafka", "group.id": "g"}
KIP_848 = MINIMAL | {"group.protocol": "consumer"}


def test_groups_are_in_zookeeper_if_the_brokers_are_found_there() -> None:
    config = ConsumerConfig.parse(IN_ZOOKEEPER)
    assert (config.group_protocol, config.offsets_storage) == ("zookeeper", "zookeeper")
    assert ConsumerConfig.parse(IN_ZOOKEEPER | {"group.protocol": "classic"}).group_protocol == "classic"


def test_the_member_in_zookeeper_has_the_settings_of_the_consumer() -> None:
    options = {
        "consumerid": "one",
        "zk.sessiontimeout.ms": "7000",
        "zk.synctime.ms": "500",
        "rebalance.retries.max": "9",
        "partition.assignment.strategy": "roundrobin",
        "exclude.internal.topics": "false",
    }
    member = ConsumerConfig.parse(IN_ZOOKEEPER | options).zookeeper_membership
    assert (str(member.connect), member.group_id, member.consumer_id) == ("localhost:2181/kafka", "g", "one")
    assert (member.session_timeout_ms, member.connection_timeout_ms) == (7_000, 7_000)
    assert (member.rebalance_backoff_ms, member.rebalance_max_retries) == (500, 9)
    assert (member.assignor, member.exclude_internal_topics) == ("roundrobin", False)
    both = {**options, "rebalance.backoff.ms": "700"}
    assert ConsumerConfig.parse(IN_ZOOKEEPER | both).zookeeper_membership.rebalance_backoff_ms == 700
    defaults = ConsumerConfig.parse(IN_ZOOKEEPER).zookeeper_membership
    assert (defaults.rebalance_backoff_ms, defaults.rebalance_max_retries) == (2_000, 4)
    assert (defaults.assignor, defaults.exclude_internal_topics, defaults.consumer_id) == ("range", True, None)


def test_offsets_are_committed_twice_while_a_group_migrates() -> None:
    assert ConsumerConfig.parse(IN_ZOOKEEPER | {"offsets.storage": "kafka"}).dual_commit_enabled
    one = ConsumerConfig.parse(IN_ZOOKEEPER | {"offsets.storage": "kafka", "dual.commit.enabled": "false"})
    assert (one.offsets_storage, one.dual_commit_enabled) == ("kafka", False)


def test_dual_commits_have_no_effect_while_offsets_are_in_zookeeper(caplog: pytest.LogCaptureFixture) -> None:
    for options in ({"dual.commit.enabled": "true"}, {"dual.commit.enabled": "true", "offsets.storage": "zookeeper"}):
        caplog.clear()
        assert ConsumerConfig.parse(IN_ZOOKEEPER | options).offsets_storage == "zookeeper"
        text = "property dual.commit.enabled of the consumer has no effect: offsets.storage=zookeeper"
        assert text in caplog.text
    caplog.clear()
    ConsumerConfig.parse(IN_ZOOKEEPER | {"dual.commit.enabled": "true", "offsets.storage": "kafka"})
    ConsumerConfig.parse(IN_ZOOKEEPER | {"dual.commit.enabled": "false"})
    assert not caplog.records


@pytest.mark.parametrize(
    ("base", "options", "message"),
    [
        (MINIMAL, {"group.protocol": "zookeeper"}, "group.protocol: zookeeper requires zookeeper.connect"),
        (MINIMAL, {"group.remote.assignor": "range"}, "group.remote.assignor: is not for group.protocol=classic"),
        (KIP_848, {"session.timeout.ms": 1}, "session.timeout.ms: is not for group.protocol=consumer"),
        (KIP_848, {"heartbeat.interval.ms": 1}, "heartbeat.interval.ms: is not for group.protocol=consumer"),
        (KIP_848, {"partition.assignment.strategy": "range"}, "strategy: is not for group.protocol=consumer"),
        (MINIMAL, {"offsets.storage": "zookeeper"}, "offsets.storage: is for group.protocol=zookeeper"),
        (MINIMAL, {"rebalance.retries.max": "3"}, "rebalance.retries.max: is for group.protocol=zookeeper"),
        (IN_ZOOKEEPER, {"group.instance.id": "a"}, "group.instance.id: is not for group.protocol=zookeeper"),
        (IN_ZOOKEEPER, {"session.timeout.ms": 1}, "session.timeout.ms: is not for group.protocol=zookeeper"),
        (
            IN_ZOOKEEPER,
            {"partition.assignment.strategy": "sticky"},
            "partition.assignment.strategy: must be range or roundrobin with group.protocol=zookeeper",
        ),
        (IN_ZOOKEEPER, {"partition.assignment.strategy": "range,roundrobin"}, "must be range or roundrobin"),
        (IN_ZOOKEEPER, {"group.id": ".."}, "group.id: a znode cannot have the name '..'"),
        (IN_ZOOKEEPER, {"consumer.id": "a/b"}, "consumer.id: 'a/b' has other characters than letters, digits and"),
        ({"zk.connect": "localhost:2181"}, {"groupid": "a b"}, "groupid: 'a b' has other characters"),
    ],
)
def test_properties_that_exclude_each_other_are_an_error(
    base: dict[str, object], options: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        ConsumerConfig.parse(base | options)
    assert message in str(raised.value)
