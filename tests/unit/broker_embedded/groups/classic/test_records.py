from dataclasses import replace
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded._groups.classic.group import ClassicConfig, ClassicGroup, ClassicState
from broker_embedded._groups.classic.member import ClassicMember
from broker_embedded._groups.classic.records import (
    GroupMetadataValue,
    MemberMetadata,
    group_tombstone,
    new_group_record,
    read_group_record,
)
from broker_embedded._groups.classic.replay import group_of, replay_group
from broker_embedded._groups.records import RecordVersions
from broker_embedded._records.coordinator_record import CoordinatorRecord
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol
from spark_kafka_native._records.errors import CorruptBatch
from tests.support.groups.classic_driver import subscription

MEMBER = ClassicMember(
    member_id="m-1",
    instance_id="i",
    client_id="c",
    client_host="/127.0.0.1",
    session_timeout_ms=10,
    rebalance_timeout_ms=20,
    protocols=(JoinGroupRequestProtocol(name="range", metadata=b"meta"),),
    assignment=b"mine",
)
GROUP = ClassicGroup(
    group_id="g",
    config=ClassicConfig(),
    state=ClassicState.STABLE,
    state_since_ms=5,
    generation=3,
    protocol_type="consumer",
    protocol_name="range",
    leader="m-1",
    members=MappingProxyType({"m-1": MEMBER}),
)
RAW_KEY = b"\x00\x02\x00\x01g"


def text(value: str) -> bytes:
    return len(value).to_bytes(2, "big") + value.encode()


def number(value: int, size: int = 4) -> bytes:
    return value.to_bytes(size, "big", signed=True)


def raw_value(version: int) -> bytes:
    """GROUP as that version writes it."""
    since = number(5, 8) if version >= 2 else b""
    instance = text("i") if version >= 3 else b""
    rebalance = number(20) if version >= 1 else b""
    member = b"".join((text("m-1"), instance, text("c"), text("/127.0.0.1"), rebalance, number(10), number(4), b"meta"))
    head = b"".join((number(version, 2), text("consumer"), number(3), text("range"), text("m-1"), since, number(1)))
    return head + member + number(4) + b"mine"


def test_a_group_record_has_the_bytes_of_apache_kafka() -> None:
    assert GROUP.record() == CoordinatorRecord(key=RAW_KEY, value=raw_value(3))


@pytest.mark.parametrize("version", range(4))
def test_a_group_can_be_written_as_older_releases_did(version: int) -> None:
    config = ClassicConfig(record_versions=RecordVersions(classic_group=version))
    assert replace(GROUP, config=config).record().value == raw_value(version)
    new = new_group_record("g", 9, config.record_versions).value
    assert new is not None
    assert new[:2] == number(version, 2)


def test_an_empty_group_has_neither_protocol_nor_leader() -> None:
    empty = ClassicGroup(group_id="g", config=ClassicConfig(), generation=4, protocol_type="consumer")
    value = b"".join((b"\x00\x03", text("consumer"), number(4), b"\xff\xff", b"\xff\xff", number(-1, 8), number(0)))
    assert empty.record() == CoordinatorRecord(key=RAW_KEY, value=value)


def test_a_new_group_has_nothing_yet() -> None:
    value = b"".join((b"\x00\x03", text(""), number(0), b"\xff\xff", b"\xff\xff", number(9, 8), number(0)))
    assert new_group_record("g", 9) == CoordinatorRecord(key=RAW_KEY, value=value)


def test_a_tombstone_is_a_key_without_a_value() -> None:
    assert group_tombstone("g") == CoordinatorRecord(key=RAW_KEY, value=None)
    assert read_group_record(group_tombstone("g")) == ("g", None)
    assert replay_group(group_tombstone("g"), CONFIG) == ("g", None)


@pytest.mark.parametrize("version", range(4))
def test_old_versions_are_read(version: int) -> None:
    group_id, value = read_group_record(CoordinatorRecord(key=RAW_KEY, value=raw_value(version)))
    assert group_id == "g"
    assert value == GroupMetadataValue(
        protocol_type="consumer",
        generation=3,
        protocol="range",
        leader="m-1",
        current_state_timestamp=5 if version >= 2 else -1,
        members=(
            MemberMetadata(
                member_id="m-1",
                group_instance_id="i" if version >= 3 else None,
                client_id="c",
                client_host="/127.0.0.1",
                rebalance_timeout=20 if version >= 1 else -1,
                session_timeout=10,
                subscription=b"meta",
                assignment=b"mine",
            ),
        ),
    )


def test_the_flexible_version_is_read() -> None:
    value = b"".join(
        (b"\x00\x04", b"\x09consumer", number(3), b"\x06range", b"\x00", number(5, 8), b"\x01", b"\x01\x07\x01x")
    )
    assert read_group_record(CoordinatorRecord(key=RAW_KEY, value=value)) == (
        "g",
        GroupMetadataValue(protocol_type="consumer", generation=3, protocol="range", current_state_timestamp=5),
    )


def test_a_version_that_is_not_known_is_not_guessed_at() -> None:
    with pytest.raises(CorruptBatch, match="unknown version 5"):
        read_group_record(CoordinatorRecord(key=RAW_KEY, value=b"\x00\x05"))


@pytest.mark.parametrize(
    "record",
    [
        *(CoordinatorRecord(key=RAW_KEY, value=raw_value(3)[:length]) for length in range(len(raw_value(3)))),
        *(CoordinatorRecord(key=RAW_KEY[:length], value=raw_value(3)) for length in range(2, len(RAW_KEY))),
    ],
)
def test_a_truncated_group_record_is_corrupt(record: CoordinatorRecord) -> None:
    with pytest.raises(CorruptBatch):
        read_group_record(record)


@given(st.binary(max_size=80))
def test_a_damaged_record_raises_only_the_error_of_damage(damage: bytes) -> None:
    for start in (b"", *(number(version, 2) for version in range(5))):
        try:
            read_group_record(CoordinatorRecord(key=RAW_KEY, value=start + damage))
        except CorruptBatch:
            continue


CONFIG = ClassicConfig(max_size=7)


def test_a_group_with_members_is_stable() -> None:
    members = tuple(
        MemberMetadata(member_id=member_id, session_timeout=10, subscription=subscription(topic), assignment=b"x")
        for member_id, topic in (("m", "t"), ("n", "u"))
    )
    value = GroupMetadataValue(protocol_type="consumer", generation=5, protocol="range", leader="n", members=members)
    group = group_of("g", value, CONFIG)
    assert (group.state, group.generation, group.leader) == (ClassicState.STABLE, 5, "n")
    assert (group.state_since_ms, group.config) == (None, CONFIG)
    assert group.subscribed == frozenset({"t", "u"})
    member = group.members["m"]
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10, 10)  # old brokers wrote down only one
    assert (member.metadata("range"), member.assignment) == (subscription("t"), b"x")
    assert member.must_heartbeat


def test_a_leader_that_is_no_member_is_replaced() -> None:
    value = GroupMetadataValue(protocol="range", leader="gone", members=(MemberMetadata(member_id="m"),))
    assert group_of("g", value, CONFIG).leader == "m"


def test_a_group_without_members_is_empty() -> None:
    group_id, group = replay_group(new_group_record("g", 9), CONFIG)
    assert group_id == "g"
    assert group is not None
    assert (group.state, group.state_since_ms, group.protocol_type, group.leader) == (ClassicState.EMPTY, 9, "", None)
