from dataclasses import replace

import pytest

from broker_embedded._groups.classic.member import (
    ClassicMember,
    as_join_response,
    require_member,
    static_member,
    subscribed_topics,
)
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.join_group import JoinGroupRequestProtocol, JoinGroupResponseMember
from tests.support.groups.classic_driver import subscription
from tests.support.refusals import refused

MEMBER = ClassicMember(
    member_id="m",
    session_timeout_ms=1,
    rebalance_timeout_ms=2,
    protocols=tuple(JoinGroupRequestProtocol(name=name, metadata=name.encode()) for name in ("sticky", "range")),
)
STATIC = replace(MEMBER, member_id="s", instance_id="i")
MEMBERS = {"m": MEMBER, "s": STATIC}


def test_a_member_votes_for_its_first_common_protocol() -> None:
    assert MEMBER.vote({"range", "sticky"}) == "sticky"
    assert MEMBER.vote({"range"}) == "range"


def test_the_metadata_of_a_member_depends_on_the_protocol() -> None:
    assert (MEMBER.metadata("range"), MEMBER.metadata("sticky")) == (b"range", b"sticky")
    assert MEMBER.supports("range")
    assert not MEMBER.supports("cooperative-sticky")


@pytest.mark.parametrize(
    ("changes", "must"),
    [
        ({}, True),
        ({"join_request_id": 1}, False),
        ({"sync_request_id": 1}, False),
        ({"join_request_id": 1, "is_new": True}, True),
    ],
)
def test_a_member_must_heartbeat_unless_it_waits(changes: dict[str, int], must: bool) -> None:
    assert replace(MEMBER, **changes).must_heartbeat is must  # type: ignore[arg-type]  # by name


def test_a_member_is_described_without_metadata_before_the_protocol_is_chosen() -> None:
    assert MEMBER.described(None).member_metadata == b""
    assert MEMBER.described("range").member_metadata == b"range"


@pytest.mark.parametrize(
    ("member_id", "instance_id", "code"),
    [
        ("x", None, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", "j", ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", "i", ErrorCode.FENCED_INSTANCE_ID),
        ("", "i", ErrorCode.FENCED_INSTANCE_ID),
    ],
)
def test_a_member_that_is_not_found(member_id: str, instance_id: str | None, code: ErrorCode) -> None:
    assert refused(require_member, MEMBERS, member_id, instance_id).code is code


def test_members_are_found_by_either_id() -> None:
    assert require_member(MEMBERS, "s", "i") is require_member(MEMBERS, "s", None) is static_member(MEMBERS, "i")
    assert static_member(MEMBERS, "j") is None


def test_the_leader_gets_all_members() -> None:
    assert as_join_response(MEMBERS, "range") == (
        JoinGroupResponseMember(member_id="m", metadata=b"range"),
        JoinGroupResponseMember(member_id="s", group_instance_id="i", metadata=b"range"),
    )


def test_topics_of_all_members() -> None:
    assert subscribed_topics([subscription("t", "u"), subscription("u", "v"), subscription()]) == frozenset("tuv")
    assert subscribed_topics([]) == frozenset()


def test_newer_versions_begin_like_the_first() -> None:
    newer = b"\x00\x03" + subscription("t")[2:] + b"\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff"
    assert subscribed_topics([newer]) == frozenset("t")


@pytest.mark.parametrize("length", range(len(subscription("t")) - 4))
def test_an_unreadable_subscription_makes_the_topics_unknown(length: int) -> None:
    assert subscribed_topics([subscription("t"), subscription("t")[:length]]) is None
