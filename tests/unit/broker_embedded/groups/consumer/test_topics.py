"""XXH3 against values of its reference implementation, and the way that Java's values are put into it."""

from uuid import UUID

import pytest
from xxhash import xxh3_64_intdigest as xxh3_64

from broker_embedded._groups.consumer.config import ConsumerConfig, ConsumerContext, MigrationPolicy
from broker_embedded._groups.consumer.topics import EMPTY_VIEW, SubscribableTopic, TopicsView

GREETINGS = SubscribableTopic(topic_id=UUID(int=0x0123456789ABCDEFFEDCBA9876543210), name="grüße-topic", partitions=3)
WIDE = SubscribableTopic(topic_id=UUID(int=(1 << 64) | 2), name="wide", partitions=200)


def test_topics_are_found_by_name_and_id() -> None:
    view = TopicsView.of([GREETINGS, WIDE], version=7)
    assert view.ids_of(["wide", "nothing"]) == {WIDE.topic_id}
    assert view.by_id[GREETINGS.topic_id] is GREETINGS
    assert (view.version, view.created_version) == (7, 7)


def test_versions_grow_and_include_the_creation_of_topics() -> None:
    first = TopicsView.of([WIDE], version=100)
    fewer = TopicsView.of([], version=90, before=first)
    assert (fewer.version, fewer.created_version) == (101, 100)
    more = TopicsView.of([WIDE, GREETINGS], version=500, before=fewer)
    assert (more.version, more.created_version) == (500, 500)


def test_the_hash_is_the_one_that_apache_kafka_computes() -> None:
    # Computed by hash4j 0.22 in the order in which Apache Kafka 4.3 puts a topic's values.
    assert TopicsView.of([GREETINGS, WIDE]).metadata_hash(["wide", "nothing", "grüße-topic"]) == -8876051830622960170


def test_the_hash_changes_with_what_matters() -> None:
    view = TopicsView.of([GREETINGS, WIDE])
    wider = SubscribableTopic(topic_id=WIDE.topic_id, name="wide", partitions=201)
    again = SubscribableTopic(topic_id=UUID(int=9), name="wide", partitions=200)
    hashes = {
        view.metadata_hash(["wide"]),
        view.metadata_hash(["wide", "grüße-topic"]),
        TopicsView.of([wider]).metadata_hash(["wide"]),
        TopicsView.of([again]).metadata_hash(["wide"]),
    }
    assert len(hashes) == 4
    assert view.metadata_hash(["nothing"]) == EMPTY_VIEW.metadata_hash(["wide"]) == 0


REFERENCE = [
    (0, 0x2D06800538D394C2),
    (1, 0xC44BDFF4074EECDB),
    (3, 0xC3489259E968AD9E),
    (4, 0xD3D60C1519014E89),
    (8, 0xB88DEE77F6BF6980),
    (9, 0x03688DCAD730D826),
    (16, 0x9DA23836ADF2BE1E),
    (17, 0xF34C3C9CF5A112D1),
    (32, 0x99CB9AD0F1A11FBE),
    (33, 0xC077B45492D29CDE),
    (64, 0x6EFB76FF16F37561),
    (65, 0x2640848E9137156B),
    (96, 0x764D2D5DB92942DF),
    (97, 0x077ACB7E5F4FD940),
    (128, 0x65F3C2C00FA93185),
    (129, 0x28065C6EC25F5B25),
    (240, 0x4917A75C0EF8EED7),
    (241, 0x541B19226F0052E8),
    (512, 0xF6FE51471F2FA1EC),
    (1024, 0xDC5ACF0B043C445B),
    (1025, 0xE1D9CD946277AE26),
    (2049, 0xC757A52BB931999D),
]
"""Of the bytes 0, 7, 14... (modulo 256), that many: every length at which the algorithm changes."""


@pytest.mark.parametrize(("size", "digest"), REFERENCE)
def test_digests_are_those_of_the_reference(size: int, digest: int) -> None:
    assert xxh3_64(bytes(number * 7 % 256 for number in range(size))) == digest


def test_values_are_hashed_in_little_endian_order() -> None:
    topic = SubscribableTopic(topic_id=UUID(int=(2**64 - 2 << 64) | 3), name="aé😀", partitions=2)
    raw = (
        b"\x00\xfe\xff\xff\xff\xff\xff\xff\xff"
        + (3).to_bytes(8, "little")
        + "aé😀".encode("utf-16-le")
        + (4).to_bytes(4, "little")
        + (2).to_bytes(4, "little")
        + (0).to_bytes(4, "little")
        + (1).to_bytes(4, "little")
    )
    digest = TopicsView.of([topic], version=1).metadata_hash([topic.name])
    assert digest % 2**64 == xxh3_64(xxh3_64(raw).to_bytes(8, "little"))
    assert -(2**63) <= digest < 2**63


def test_migration_policies_allow_upgrade_and_downgrade() -> None:
    allowed = {policy.value: (policy.allows_upgrade, policy.allows_downgrade) for policy in MigrationPolicy}
    assert allowed == {
        "disabled": (False, False),
        "downgrade": (False, True),
        "upgrade": (True, False),
        "bidirectional": (True, True),
    }


def test_defaults_of_the_group_settings_are_kafkas() -> None:
    config = ConsumerContext().config("any")
    assert config == ConsumerConfig()
    assert (config.session_timeout_ms, config.heartbeat_interval_ms) == (45000, 5000)
    assert config.assignment_interval_ms == 1000
    assert (config.max_size, config.assignors) == (2**31 - 1, ("uniform", "range"))
    assert dict(ConsumerContext().topics().by_name) == {}
