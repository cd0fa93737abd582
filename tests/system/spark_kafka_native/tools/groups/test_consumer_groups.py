import pytest

from tests.support.tools import Tool


@pytest.fixture
def topic(on_broker: Tool, name: str) -> str:
    """A topic with six records, of which the group of its name has read four."""
    on_broker("kafka-topics", "--create", "--topic", name, "--partitions", "1")
    on_broker("kafka-console-producer", "--topic", name, stdin=b"1\n2\n3\n4\n5\n6\n")
    on_broker("kafka-console-consumer", "--topic", name, "--from-beginning", "--group", name, "--max-messages", "4")
    return name


def cells(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if line]


def test_groups_are_listed(on_broker: Tool, topic: str) -> None:
    assert topic in on_broker("kafka-consumer-groups", "--list").lines
    assert [topic, "Empty"] in cells(on_broker("kafka-consumer-groups", "--list", "--state").lines)
    assert on_broker("kafka-consumer-groups", "--list", "--state").lines[0].split() == ["GROUP", "STATE"]
    assert [topic, "Empty"] not in cells(on_broker("kafka-consumer-groups", "--list", "--state", "Stable").lines)


def test_offsets_and_lag_are_described(on_broker: Tool, topic: str) -> None:
    response = on_broker("kafka-consumer-groups", "--describe", "--group", topic)
    assert response.err == f"\nConsumer group '{topic}' has no active members.\n"
    header, row = cells(response.lines)
    verbose = on_broker("kafka-consumer-groups", "--describe", "--group", topic, "--offsets", "--verbose")
    assert cells(verbose.lines)[0][3] == "LEADER-EPOCH"
    assert header[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert row == [topic, topic, "0", "4", "6", "2", "-", "-", "-"]


def test_state_and_members_are_described(on_broker: Tool, topic: str) -> None:
    _, row = cells(on_broker("kafka-consumer-groups", "--describe", "--group", topic, "--state").lines)
    assert (row[0], row[-2:]) == (topic, ["Empty", "0"])
    assert row[-3] == "-"  # no member, no assignment strategy
    (header,) = cells(
        on_broker("kafka-consumer-groups", "--describe", "--group", topic, "--members", "--verbose").lines
    )
    assert header[-1] == "TARGET-ASSIGNMENT"


@pytest.mark.parametrize(("group", "error"), [("not-there", "not-there"), ("", "INVALID_GROUP_ID")])
def test_unknown_group_is_an_error(on_broker: Tool, group: str, error: str) -> None:
    response = on_broker("kafka-consumer-groups", "--describe", "--group", group)
    assert (response.status, error in response.err) == (1, True)


def test_a_group_is_deleted(on_broker: Tool, topic: str) -> None:
    response = on_broker("kafka-consumer-groups", "--delete", "--group", topic)
    assert response.out == f"Deletion of requested consumer groups ('{topic}') was successful.\n"
    assert topic not in on_broker("kafka-consumer-groups", "--list").lines
    again = on_broker("kafka-consumer-groups", "--delete", "--group", topic)
    assert (again.status, f"Deletion of group '{topic}' failed" in again.err) == (1, True)


def test_offsets_are_deleted(on_broker: Tool, topic: str) -> None:
    response = on_broker("kafka-consumer-groups", "--delete-offsets", "--group", topic, "--topic", f"{topic}:0")
    assert response.lines[0] == f"Request succeeded for deleting offsets from group {topic}."
    assert cells(response.lines)[2] == [topic, "0", "Successful"]
    refused = on_broker("kafka-consumer-groups", "--delete-offsets", "--group", "not-there", "--topic", topic)
    assert refused.status == 1


def test_offsets_are_reset_only_with_execute(on_broker: Tool, topic: str) -> None:
    arguments = ("--reset-offsets", "--group", topic, "--topic", topic, "--to-earliest")
    for execute, position in (((), "4"), (("--execute",), "0")):
        response = on_broker("kafka-consumer-groups", *arguments, *execute)
        assert cells(response.lines)[1] == [topic, topic, "0", "0"]
        row = cells(on_broker("kafka-consumer-groups", "--describe", "--group", topic).lines)[1]
        assert row[3] == position


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--describe",), "--group or --all-groups is required"),
        (("--reset-offsets", "--group", "g", "--to-latest"), "--topic or --all-topics is required"),
        (
            ("--delete-offsets", "--group", "g", "--group", "h", "--topic", "t"),
            "--delete-offsets takes one group, not 2",
        ),
    ],
)
def test_bad_options(on_broker: Tool, arguments: tuple[str, ...], words: str) -> None:
    response = on_broker("kafka-consumer-groups", *arguments)
    assert response.status == 2
    assert words in response.err
