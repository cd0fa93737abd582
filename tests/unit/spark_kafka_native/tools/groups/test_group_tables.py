"""What Apache Kafka 4.3 prints of the same groups; tests/interop/test_same_tools.py compares both."""

import pytest

from spark_kafka_native._client.admin.committed_offsets import OffsetAndMetadata
from spark_kafka_native._client.admin.groups import GroupDescription, GroupListing, GroupMember
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.topic import TopicPartition
from spark_kafka_native._tools.groups.group_tables import (
    complain_of_state,
    deleted_offsets_table,
    groups_table,
    members_table,
    new_offsets_table,
    offsets_table,
    state_table,
)

FIRST, SECOND = TopicPartition("orders", 0), TopicPartition("orders", 1)
EMPTY = GroupDescription(group_id="g", state="Empty", type="classic", assignor="", coordinator=1)
MEMBER = GroupMember(member_id="m", client_id="c", host="/127.0.0.1", partitions=(FIRST,))
CLASSIC = GroupDescription(
    group_id="g", state="Stable", type="classic", assignor="range", coordinator=1, members=(MEMBER,)
)
CONSUMERS = GroupDescription(
    group_id="a-group-with-a-long-name",
    state="Reconciling",
    type="consumer",
    assignor="uniform",
    coordinator=1,
    epoch=5,
    assignment_epoch=4,
    members=(
        GroupMember(member_id="m-1", client_id="c", host="/h", epoch=3, partitions=(SECOND, FIRST), upgraded=True),
        GroupMember(
            member_id="m-2", client_id="c", host="/h", epoch=4, target=(FIRST,), instance_id="i", upgraded=False
        ),
    ),
)


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def test_a_list_with_states_begins_with_its_titles(capsys: pytest.CaptureFixture[str]) -> None:
    groups = [GroupListing(group_id="g", protocol_type="consumer", state="Stable", type="classic")]
    groups_table(groups, types=False, states=True).show(as_json=False, blank_line=False)
    assert printed(capsys) == [
        "GROUP                     STATE               ",
        "g                         Stable              ",
    ]
    more = [*groups, GroupListing(group_id="x" * 16, protocol_type="")]
    groups_table(more, types=True, states=True).show(as_json=False, blank_line=False)
    assert printed(capsys) == [
        "GROUP                      TYPE                 STATE               ",
        "g                          Classic              Stable              ",
        "xxxxxxxxxxxxxxxx           Unknown              Unknown             ",
    ]


@pytest.mark.parametrize("verbose", [False, True])
def test_offsets_have_leader_epochs_with_verbose(capsys: pytest.CaptureFixture[str], verbose: bool) -> None:
    committed = {FIRST: OffsetAndMetadata(offset=4, leader_epoch=7), SECOND: OffsetAndMetadata(offset=1)}
    offsets_table(CLASSIC, committed, {FIRST: 6}, verbose=verbose).show(as_json=False)
    lines = printed(capsys)
    parts = ("LEADER-EPOCH    ", "7               ", "-               ") if verbose else ("", "", "")
    assert lines == [
        "",
        (
            f"GROUP           TOPIC           PARTITION  {parts[0]}CURRENT-OFFSET  LOG-END-OFFSET  LAG             "
            "CONSUMER-ID     HOST            CLIENT-ID"
        ),
        (
            f"g               orders          0          {parts[1]}4               6               2               "
            "m               /127.0.0.1      c"
        ),
        (
            f"g               orders          1          {parts[2]}1               -               -               "
            "-               -               -"
        ),
    ]


def test_a_group_without_members_is_reported_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    complain_of_state(EMPTY)
    assert capsys.readouterr() == ("", "\nConsumer group 'g' has no active members.\n")
    members_table(EMPTY, verbose=False).show(as_json=False)
    assert printed(capsys) == ["", "GROUP           CONSUMER-ID     HOST            CLIENT-ID       #PARTITIONS     "]


def test_members_of_a_group_of_both_protocols(capsys: pytest.CaptureFixture[str]) -> None:
    complain_of_state(CONSUMERS)
    members_table(CONSUMERS, verbose=True).show(as_json=False)
    said = capsys.readouterr()
    assert said.err == "\nWarning: Consumer group 'a-group-with-a-long-name' is rebalancing.\n"
    assert said.out.splitlines() == [
        "",
        (
            "GROUP                    CONSUMER-ID     GROUP-INSTANCE-ID HOST            CLIENT-ID       "
            "#PARTITIONS     CURRENT-EPOCH   CURRENT-ASSIGNMENT   TARGET-EPOCH    TARGET-ASSIGNMENT    UPGRADED"
        ),
        (
            "a-group-with-a-long-name m-1                               /h              c               "
            "2               3               orders:0,1           4               -                    true"
        ),
        (
            "a-group-with-a-long-name m-2             i                 /h              c               "
            "0               4               -                    4               orders:0             false"
        ),
    ]


def test_the_state_of_a_group(capsys: pytest.CaptureFixture[str]) -> None:
    state_table(EMPTY, "127.0.0.1:9092", verbose=False).show(as_json=False)
    assert printed(capsys) == [
        "",
        "GROUP           COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                #MEMBERS",
        "g               127.0.0.1:9092  (1)       -                    Empty                0",
    ]
    state_table(CONSUMERS, "127.0.0.1:9092", verbose=True).show(as_json=False)
    assert printed(capsys) == [
        "",
        (
            "GROUP                    COORDINATOR (ID)          ASSIGNMENT-STRATEGY  STATE                "
            "GROUP-EPOCH     TARGET-ASSIGNMENT-EPOCH   #MEMBERS"
        ),
        (
            "a-group-with-a-long-name 127.0.0.1:9092  (1)       uniform              Reconciling          "
            "5               4                         2"
        ),
    ]


def test_new_offsets_and_outcomes(capsys: pytest.CaptureFixture[str]) -> None:
    new_offsets_table([("g", FIRST, 3)]).show(as_json=False)
    deleted_offsets_table("g", {SECOND: ErrorCode.NONE}).show(as_json=False)
    assert printed(capsys) == [
        "",
        "GROUP           TOPIC           PARTITION  NEW-OFFSET",
        "g               orders          0          3",
        "",
        "TOPIC           PARTITION  STATUS         ",
        "orders          1          Successful     ",
    ]


def test_rows_in_json_have_values_where_text_has_signs() -> None:
    committed = {FIRST: OffsetAndMetadata(offset=4, leader_epoch=7), SECOND: OffsetAndMetadata(offset=1)}
    first, second = offsets_table(CLASSIC, committed, {FIRST: 6}, verbose=True).records()
    assert first == {
        "group": "g",
        "topic": "orders",
        "partition": 0,
        "leaderEpoch": 7,
        "currentOffset": 4,
        "logEndOffset": 6,
        "lag": 2,
        "consumerId": "m",
        "host": "/127.0.0.1",
        "clientId": "c",
    }
    assert (second["lag"], second["leaderEpoch"], second["consumerId"]) == (None, None, None)
    (member, _) = members_table(CONSUMERS, verbose=True).records()
    assert (member["currentAssignment"], member["targetAssignment"], member["upgraded"]) == (
        {"orders": [0, 1]},
        {},
        True,
    )
    assert (member["groupInstanceId"], member["partitionCount"], member["currentEpoch"]) == (None, 2, 3)
    (plain,) = members_table(CLASSIC, verbose=False).records()
    assert [*plain] == ["group", "consumerId", "host", "clientId", "partitionCount"]
    (state,) = state_table(EMPTY, "127.0.0.1:9092", verbose=False).records()
    assert (state["coordinator"], state["coordinatorId"], state["memberCount"]) == ("127.0.0.1:9092", 1, 0)
    (deleted,) = deleted_offsets_table("g", {SECOND: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC}).records()
    assert deleted == {"group": "g", "topic": "orders", "partition": 1, "error": "GROUP_SUBSCRIBED_TO_TOPIC"}
