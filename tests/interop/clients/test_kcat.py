"""kcat, from Debian: an older librdkafka at a command line."""

import json
import subprocess
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.support.programs.toolchains import ToolMissing, debian_program
from tests.support.servers.brokers import AnyBroker, TopicMaker, stored_batches
from tests.support.waiting import eventually

pytestmark = pytest.mark.interop

TIMEOUT_S = 60.0

Kcat = Callable[..., list[str]]


@pytest.fixture(scope="module")
def kcat_command() -> list[str]:
    try:
        return debian_program("kcat", "kcat")
    except ToolMissing as error:
        pytest.skip(f"kcat is not available: {error}")


@pytest.fixture
def kcat(kcat_command: list[str], server: AnyBroker) -> Kcat:
    """Runs kcat and returns the lines that it prints."""

    def run(*arguments: str, given: str = "") -> list[str]:
        command = [*kcat_command, "-b", server.bootstrap_servers, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, input=given)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    return run


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_is_produced_is_consumed(kcat: Kcat, codec: str, server: AnyBroker, new_topic: TopicMaker) -> None:
    topic = new_topic()
    given = "".join(f"key-{number}\tvalue {number} {'and so on ' * 10}\n" for number in range(200))
    compression = ("-z", codec) if codec != "none" else ()
    kcat("-P", "-t", topic, "-K", "\t", "-H", "one=1", "-H", "two=2", *compression, given=given)
    read = ("-C", "-t", topic, "-e", "-q", "-f", "%p %o %h %k %s\\n")
    expected = [f"0 {number} one=1,two=2 key-{number} value {number} {'and so on ' * 10}" for number in range(200)]
    assert kcat(*read, "-o", "beginning") == expected
    assert kcat(*read, "-o", "-5") == expected[-5:]
    assert kcat(*read, "-o", "150", "-c", "10") == expected[150:160]
    # librdkafka leaves batches as they are that would only grow.
    assert codec in {header.compression.label for header in stored_batches(server, topic)}


def test_metadata_is_listed(kcat: Kcat, new_topic: TopicMaker) -> None:
    topic = new_topic(3)
    listed = json.loads("".join(kcat("-L", "-J", "-t", topic)))
    assert [broker["id"] for broker in listed["brokers"]] == [1]
    assert listed["controllerid"] == 1
    ((name, partitions),) = [(one["topic"], one["partitions"]) for one in listed["topics"]]
    assert name == topic
    assert sorted((one["partition"], one["leader"], one["isrs"]) for one in partitions) == [
        (number, 1, [{"id": 1}]) for number in range(3)
    ]


def test_offsets_are_queried_by_time(kcat: Kcat, new_topic: TopicMaker) -> None:
    topic = new_topic()
    kcat("-P", "-t", topic, given="a\nb\nc\n")
    for moment, offset in (("-2", 0), ("-1", 3), ("1000", 0), ("4000000000000", -1)):
        assert kcat("-Q", "-t", f"{topic}:0:{moment}") == [f"{topic} [0] offset {offset}"]


def test_a_balanced_consumer_resumes_from_its_commits(kcat: Kcat, new_topic: TopicMaker) -> None:
    topic = new_topic(2)
    group = ("-G", f"group-of-{topic}", "-q", "-X", "auto.offset.reset=earliest", "-f", "%s\\n", topic)
    kcat("-P", "-t", topic, "-p", "0", given="1\n2\n")
    kcat("-P", "-t", topic, "-p", "1", given="3\n4\n")
    assert sorted(kcat("-c", "4", *group)) == ["1", "2", "3", "4"]
    kcat("-P", "-t", topic, "-p", "1", given="5\n")
    assert kcat("-c", "1", *group) == ["5"]


def test_two_balanced_consumers_share_the_partitions(
    kcat: Kcat, kcat_command: list[str], server: AnyBroker, new_topic: TopicMaker
) -> None:
    topic = new_topic(4)
    options = ("-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=300", "-f", "%p %s\\n", "-u")
    command = [*kcat_command, "-b", server.bootstrap_servers, "-G", f"group-of-{topic}", *options, topic]
    members = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for member in members:
            assert member.stderr is not None
            wait_for_partitions(member.stderr.readline, topic, 2)
        for partition in range(4):
            kcat("-P", "-t", topic, "-p", str(partition), given=f"v{partition}\n")
        read = []
        for member in members:
            assert member.stdout is not None
            read.append({member.stdout.readline().strip() for _ in range(2)})
        assert read[0] | read[1] == {f"{partition} v{partition}" for partition in range(4)}
    finally:
        for member in members:
            member.terminate()
            with suppress(subprocess.TimeoutExpired):
                member.communicate(timeout=20)
            member.kill()
            member.communicate()


def wait_for_partitions(next_line: Callable[[], str], topic: str, count: int) -> None:
    """Read what kcat says of rebalances until it has `count` partitions."""

    def assigned() -> int:
        line = next_line()
        return line.count(f"{topic} [") if "assigned" in line else -1

    eventually(assigned, count, within_s=60)
