import pytest
from dirty_equals import Contains

from tests.support.tools import Tool
from tests.support.waiting import eventually


@pytest.fixture
def topic(on_broker: Tool, name: str) -> str:
    assert on_broker("kafka-topics", "--create", "--topic", name, "--config", "retention.ms=1000").status == 0
    # A broker of Apache Kafka learns of a new topic after the controller's response.
    eventually(lambda: on_broker("kafka-configs", "--describe", "--topic", name).status, 0)
    return name


def test_settings_of_a_topic_are_set_and_deleted(on_broker: Tool, topic: str) -> None:
    entity = ("--entity-type", "topics", "--entity-name", topic)
    changed = on_broker(
        "kafka-configs", "--alter", *entity, "--add-config", "cleanup.policy=[compact,delete],segment.ms=60000",
        "--delete-config", "retention.ms", "--delete-config", "retention.bytes",
    )  # fmt: skip
    assert (changed.status, changed.out) == (0, f"Completed updating config for topic {topic}.\n")
    first = f"Dynamic configs for topic {topic} are:"
    shown = [first, "  cleanup.policy=compact,delete", "  segment.ms=60000"]

    def described() -> list[str]:
        return on_broker("kafka-configs", "--describe", *entity).lines

    eventually(lambda: [line.partition(" sensitive=")[0] for line in described()], shown)
    _, *lines = described()
    assert all("sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:" in line for line in lines)


def test_all_settings_may_be_shown(on_broker: Tool, topic: str) -> None:
    first, *lines = on_broker("kafka-configs", "--describe", "--all", "--topic", topic).lines
    assert first == f"All configs for topic {topic} are:"
    names = {line.split("=")[0].strip() for line in lines}
    assert {"retention.ms", "retention.bytes", "max.message.bytes"} <= names


def test_without_a_name_all_topics_are_described(on_broker: Tool, topic: str) -> None:
    line = f"Dynamic configs for topic {topic} are:"
    eventually(lambda: on_broker("kafka-configs", "--describe", "--entity-type", "topics").lines, Contains(line))


def test_settings_of_brokers(on_broker: Tool) -> None:
    response = on_broker("kafka-configs", "--describe", "--all", "--broker", "1")
    assert response.status == 0
    assert any(line.startswith("  num.partitions=") for line in response.lines)
    first = "Default configs for brokers in the cluster are:"
    assert on_broker("kafka-configs", "--describe", "--broker-defaults").lines[0] == first
    every = on_broker("kafka-configs", "--describe", "--entity-type", "brokers").lines
    assert [line for line in every if not line.startswith(" ")] == ["Dynamic configs for broker 1 are:", first]


def test_what_the_cluster_refuses(on_broker: Tool, topic: str) -> None:
    response = on_broker("kafka-configs", "--alter", "--topic", topic, "--add-config", "retention.ms=soon")
    assert response.status == 1
    assert response.err.startswith(f"kafka-configs: topic {topic}: ")
    assert "retention.ms" in response.err
    assert response.err.endswith(" (INVALID_CONFIG, 40)\n")
    response = on_broker("kafka-configs", "--alter", "--broker", "1", "--add-config", "num.partitions=3")
    assert response.status == 1
    assert response.err.startswith("kafka-configs: broker 1: ")
    assert "malformed" not in response.err
    response = on_broker("kafka-configs", "--alter", "--user", "unused", "--delete-config", "SCRAM-SHA-256")
    assert (response.status, response.err.startswith("kafka-configs: user unused: ")) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--describe",), "--entity-type: one of topics, brokers, groups, users, clients, ips is required"),
        (("--describe", "--entity-type", "broker-loggers"), "broker-loggers is not one of topics, brokers, groups"),
        (("--describe", "--entity-type", "groups"), "--entity-name is required for groups"),
        (("--describe", "--entity-name", "t"), "--entity-type: each --entity-name and --entity-default needs one"),
        (("--describe", "--entity-type", "users", "--client", "c"), "--entity-type cannot be combined with --client"),
        (("--describe", "--user", "u", "--ip", "::1"), "users and ips cannot be given together"),
        (("--alter", "--entity-type", "users", "--add-config", "request_percentage=1"), "--entity-name is required"),
        (("--alter", "--user", "u", "--add-config", "nonsense=1"), "nonsense is not a config of users, only producer_"),
        (
            ("--alter", "--user", "u", "--add-config", "SCRAM-SHA-1=[password=x]"),
            "SCRAM-SHA-256, SCRAM-SHA-512; did you",
        ),
        (
            ("--alter", "--ip", "::1", "--add-config", "request_percentage=1"),
            "request_percentage is not a config of ips, only connection_creation_rate",
        ),
        (("--alter", "--user", "u", "--add-config", "request_percentage=x"), "request_percentage: 'x' is not a number"),
        (("--alter", "--user", "u", "--delete-config", "request_percentage"), "Invalid config(s): request_percentage"),
        (
            ("--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[password=x],request_percentage=1"),
            "one command can change either quotas or SCRAM credentials",
        ),
        (("--alter", "--user-defaults", "--add-config", "SCRAM-SHA-256=[password=x]"), "SCRAM-SHA-256 needs one user"),
        (
            ("--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[iterations=4096]"),
            "the value of SCRAM-SHA-256 is not [iterations=N,password=TEXT]",
        ),
        (
            ("--alter", "--user", "u", "--add-config", "SCRAM-SHA-256=[iterations=4,password=x]"),
            "SCRAM-SHA-256: iterations=4 is not between 4096 and 16384",
        ),
        (
            ("--describe", "--entity-type", "topics", "--entity-default"),
            "--entity-default (or an empty name) is for brokers, users, clients and ips, not for topics",
        ),
        (("--describe", "--broker", "one"), "'one' is not the id of a broker"),
        (("--alter", "--topic", "t"), "--alter needs --add-config"),
        (("--alter", "--topic", "t", "--add-config", "a"), "--add-config: KEY=VALUE is expected"),
        (
            ("--alter", "--topic", "t", "--add-config", "a=1", "--delete-config", "a"),
            "--add-config and --delete-config both name a",
        ),
    ],
)
def test_bad_options(on_broker: Tool, arguments: tuple[str, ...], words: str) -> None:
    response = on_broker("kafka-configs", *arguments)
    assert response.status == 2
    assert words in response.err
