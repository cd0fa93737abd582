"""Groups through crashes of the broker: acknowledged commits exist, members stay members, no client waits long."""

import contextlib
import random
import threading
import time
from pathlib import Path

import pytest

from broker_embedded.testing import BrokerProcess
from spark_kafka_native._protocol.errors import ErrorCode
from tests.support.requests.classic_group import RawMember, join_all, stabilize, wait_for_coordinator
from tests.support.requests.committed_offsets import committed_offset
from tests.support.requests.raw_client import RawClient
from tests.support.waiting import WITHIN_S

pytestmark = pytest.mark.interop

TOPIC, GROUP = "t", "g"
KILLS = 10
SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 3}


def committed(broker: BrokerProcess) -> int | ErrorCode:
    with RawClient(broker.bootstrap_servers) as client:
        wait_for_coordinator(client, GROUP)
        return committed_offset(client, GROUP, TOPIC)


class Committer:
    """A member that commits one offset after the other until its broker dies."""

    def __init__(self, member: RawMember, offset: int) -> None:
        self.asked = self.acknowledged = offset
        self._member = member
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Wait until that many more commits are acknowledged, or none can be any more."""
        wanted, deadline = self.acknowledged + count, time.monotonic() + WITHIN_S
        while self.acknowledged < wanted and self._thread.is_alive():
            assert time.monotonic() < deadline, f"no {count} commits in {WITHIN_S:.0f} s"
            time.sleep(0.001)  # polls: the broker is killed right after the commit

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.asked += 1
                assert self._member.commit(TOPIC, self.asked) is ErrorCode.NONE
                self.acknowledged = self.asked


def test_commits_and_members_survive_kills(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with BrokerProcess(tmp_path, settings=SETTINGS, topics={TOPIC: 1}) as broker:
        with RawMember(broker.bootstrap_servers, GROUP, instance_id="i") as first:
            stabilize(first)
            identity = (first.member_id, first.generation)
        offset = 0
        for _ in range(KILLS):
            with RawMember(broker.bootstrap_servers, GROUP, instance_id="i") as member:
                member.member_id, member.generation = identity
                assert member.heartbeat() is ErrorCode.NONE
                committer = Committer(member, offset)
                committer.wait_for(chance.randrange(1, 200))
                broker.kill()
                committer.join()
            broker.restart()
            offset = committed(broker)
            assert committer.acknowledged <= offset <= committer.asked


@pytest.mark.parametrize("step", ["joining", "joined", "syncing", "stable", "rejoining"])
def test_a_group_continues_after_a_kill_at_any_step_of_a_rebalance(tmp_path: Path, step: str) -> None:
    settings = {**SETTINGS, "group.min.session.timeout.ms": 100}
    with BrokerProcess(tmp_path, settings=settings) as broker:
        with RawMember(broker.bootstrap_servers, GROUP) as first, RawMember(broker.bootstrap_servers, GROUP) as second:
            second.session_timeout_ms = 3_000
            match step:
                case "joining":
                    first.begin_join()
                case "joined":
                    join_all(first, second)
                case "syncing":
                    join_all(first, second)
                    second.begin_sync()
                case "stable" | "rejoining":
                    stabilize(first, second)
                    if step == "rejoining":
                        first.begin_join()
                        second.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
            broker.kill()
        broker.restart()
        with RawMember(broker.bootstrap_servers, GROUP) as back:
            back.member_id, back.generation = first.member_id, first.generation
            if step in {"stable", "rejoining"}:
                assert back.heartbeat() is ErrorCode.NONE
                back.begin_join()  # it leads, so that the other one has to join too, or to fall silent
                assert [member.member_id for member in back.joined().members] == [first.member_id]
            else:  # a generation in which nothing was assigned was never written down
                assert back.heartbeat() is ErrorCode.UNKNOWN_MEMBER_ID
                back.member_id = ""
                stabilize(back)


def test_pending_requests_get_a_response_when_the_broker_stops(tmp_path: Path) -> None:
    settings = {**SETTINGS, "group.initial.rebalance.delay.ms": 60_000}
    with BrokerProcess(tmp_path, settings=settings) as broker, RawMember(broker.bootstrap_servers, GROUP) as waiting:
        waiting.begin_join()
        broker.terminate()
        assert waiting.joined().error_code == ErrorCode.NOT_COORDINATOR
        assert waiting.client.is_closed()


def test_a_client_that_disconnects_while_it_waits_delays_no_other_for_long(tmp_path: Path) -> None:
    settings = {**SETTINGS, "group.min.session.timeout.ms": 100}
    with BrokerProcess(tmp_path, settings=settings) as broker, RawMember(broker.bootstrap_servers, GROUP) as stays:
        stays.rebalance_timeout_ms = 3_000
        stabilize(stays)
        with RawMember(broker.bootstrap_servers, GROUP) as leaves:
            leaves.session_timeout_ms = leaves.rebalance_timeout_ms = 3_000
            leaves.begin_join()
            stays.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
        assert stays.join().error_code == ErrorCode.NONE
        stays.sync()
        stays.heartbeat_until(ErrorCode.REBALANCE_IN_PROGRESS)
        assert len(stays.join().members) == 1
