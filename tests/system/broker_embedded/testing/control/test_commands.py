import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker_embedded._platform.platform import ManualClock
from broker_embedded._testing.control.commands import Control, ControlResponse, _plain
from broker_embedded._testing.fields import FieldError
from broker_embedded._testing.restartable import RestartableBroker
from broker_embedded._testing.scopes import Scope
from spark_kafka_native._protocol.errors import KafkaError
from tests.support.broker.driver import fetch_request
from tests.support.requests.raw_client import RawClient


class ControlDriver:
    """Sends commands to a broker that has started."""

    def __init__(self, data_dir: Path) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": 1}
        self.broker = RestartableBroker(settings, data_dir, clock=self.clock)
        self.control = Control(self.broker)
        self("POST", "/start")

    def __call__(self, method: str, path: str, **fields: Any) -> dict[str, Any]:
        return self.do(method, path, fields).result()

    def do(self, method: str, path: str, fields: dict[str, Any] | None = None) -> ControlResponse:
        return self.loop.run_until_complete(asyncio.wait_for(self.control.do(method, path, fields), 30))

    def close(self) -> None:
        self("POST", "/stop")
        self.loop.close()


@pytest.fixture
def say(tmp_path: Path) -> Iterator[ControlDriver]:
    driver = ControlDriver(tmp_path / "data")
    yield driver
    driver.close()


def test_the_status_of_a_running_and_of_a_stopped_broker(say: ControlDriver) -> None:
    status = say("GET", "/")
    assert status == {"running": True, "bootstrap_servers": say.broker.address, "now_ms": say.clock.now_ms()}
    assert say("POST", "/stop") == {"running": False, "bootstrap_servers": None, "now_ms": say.clock.now_ms()}
    assert say("POST", "/stop")["running"] is False
    assert say("POST", "/start") == status
    assert say("POST", "/start") == status
    assert say("POST", "/kill")["running"] is False
    assert say("POST", "/start") == status


def test_the_clock_is_moved_whether_the_broker_runs_or_not(say: ControlDriver) -> None:
    begun = say.clock.now_ms()
    assert say("POST", "/clock/advance", ms=1000) == {"now_ms": begun + 1000}
    say("POST", "/stop")
    assert say("POST", "/clock/advance", ms=500) == {"now_ms": begun + 1500}


def test_faults_are_set_seen_and_removed(say: ControlDriver) -> None:
    set_ = say("POST", "/faults", action="drop", api="Fetch", topic="t", times=2)
    expected = {"action": "drop", "api": "Fetch", "topic": "t", "times": 2, "calls": 0, "hits": 0, "spent": False}
    assert set_ == {"id": 1, **expected}
    assert say("GET", "/faults") == {"faults": [set_]}
    assert say("GET", "/faults/1") == set_
    assert say("DELETE", "/faults/1") == set_
    assert say("GET", "/faults") == {"faults": []}
    say("POST", "/faults", action="delay", api="*", ms=5)
    say("POST", "/leaders/move", topic=say("POST", "/topics", name="t")["name"], partition=0)
    say("POST", "/fetches/pause")
    assert say("DELETE", "/faults") == {}
    assert not say.broker.injector.moves
    assert not say.broker.injector.pauses
    assert say("GET", "/faults") == {"faults": []}


def test_fetches_are_paused_and_resumed(say: ControlDriver) -> None:
    pauses = say.broker.injector.pauses
    say("POST", "/fetches/pause", topic="t", partition=1)
    assert (pauses.cover("t", 1), pauses.cover("t", 0)) == (True, False)
    say("POST", "/fetches/pause")
    assert pauses.cover("u", 0)
    say("POST", "/fetches/resume")
    say("POST", "/fetches/resume", topic="t", partition=1)
    assert not pauses


def test_leaders_and_coordinators_move(say: ControlDriver) -> None:
    say("POST", "/topics", name="t", partitions=2)
    assert say("POST", "/leaders/move", topic="t", partition=1) == {"leader_epoch": 1}
    assert say("POST", "/leaders/move", topic="t", partition=1) == {"leader_epoch": 2}
    assert say("POST", "/coordinators/move", group="g") == {}
    moves = {move.scope for move in say.broker.injector.moves._moves.values()}
    assert moves == {Scope(topic="t", partition=1), Scope(group="g")}


def test_topics_are_made_listed_and_deleted(say: ControlDriver) -> None:
    made = say("POST", "/topics", name="t", partitions=3, configs={"retention.ms": "5"})
    image = say.broker.server.broker.image.topics["t"]
    assert made == {"name": "t", "partitions": 3, "topic_id": str(image.topic_id)}
    assert dict(image.configs) == {"retention.ms": "5"}
    say("POST", "/topics", name="a.b")
    assert say("GET", "/topics") == {"topics": {"a.b": 1, "t": 3}}
    assert say("DELETE", "/topics/a.b") == {}
    assert say("GET", "/topics") == {"topics": {"t": 3}}


def test_requests_are_listed_and_forgotten(say: ControlDriver) -> None:
    async def talk() -> None:
        await asyncio.to_thread(ask)

    def ask() -> None:
        with RawClient(say.broker.address) as client:
            client.ask(fetch_request("t"), 11)
            client.ask(fetch_request("u"), 11)

    say.loop.run_until_complete(talk())
    response = say("GET", "/requests", api="Fetch")
    assert response["counts"] == {"Fetch": 2}
    assert [each["request"]["topics"][0]["topic"] for each in response["requests"]] == ["t", "u"]
    assert [each["number"] for each in say("GET", "/requests", client_id="raw", after=1)["requests"]] == [2]
    assert [each["number"] for each in say("GET", "/requests", most=1)["requests"]] == [1]
    assert say("GET", "/requests", api="Produce")["requests"] == []
    assert say("DELETE", "/requests") == {}
    assert say("GET", "/requests") == {"requests": [], "counts": {}}


def test_metrics_are_plain(say: ControlDriver) -> None:
    say("POST", "/topics", name="t")
    metrics = say("GET", "/metrics")
    assert json.loads(json.dumps(metrics)) == metrics
    assert metrics["topics"]["t"]["partitions"]["0"]["log_end_offset"] == 0
    assert metrics["connections"]["open"] == 0
    assert _plain({("classic", "Stable"): (1, 2.5, None)}) == {"classic/Stable": [1, 2.5, None]}


@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "body"),
    [
        ("GET", "/nothing", {}, 404, {"problem": "/nothing is not one of /, /start, /stop, /kill, /faults"}),
        ("GET", "/topics/a/b", {}, 405, {"problem": "/topics/a/b takes DELETE, not GET"}),
        ("PUT", "/faults", {}, 405, {"problem": "/faults takes GET or POST or DELETE, not PUT"}),
        ("GET", "/faults/9", {}, 404, {"problem": "there is no fault 9"}),
        ("DELETE", "/faults/x", {}, 404, {"problem": "there is no fault x"}),
        ("POST", "/start", {"now": 1}, 400, {"field": "now", "problem": "this command has no such field"}),
        ("POST", "/faults", {"action": "drop"}, 400, {"field": "api", "problem": "the field is missing"}),
        ("POST", "/clock/advance", {}, 400, {"field": "ms", "problem": "the field is missing"}),
        ("POST", "/clock/advance", {"ms": -1}, 400, {"field": "ms", "problem": "-1 is not between 0 and"}),
        (
            "POST",
            "/topics",
            {"name": "t", "partitions": 0},
            400,
            {"field": "partitions", "problem": "0 is not between 1 and"},
        ),
        ("POST", "/topics", {"name": "a/b"}, 400, {"error": "INVALID_TOPIC_EXCEPTION", "problem": "topic name"}),
        ("DELETE", "/topics/t", {}, 400, {"error": "UNKNOWN_TOPIC_OR_PARTITION", "problem": "there is no topic t"}),
        (
            "POST",
            "/leaders/move",
            {"topic": "t", "partition": 0},
            400,
            {"error": "UNKNOWN_TOPIC_OR_PARTITION", "problem": "there is no partition t-0"},
        ),
        ("POST", "/fetches/pause", {"group": "g"}, 400, {"field": "group", "problem": "Fetch is not about"}),
        ("GET", "/request", {}, 404, {"problem": "/request is not one of /, /start"}),
        (
            "GET",
            "/requests",
            {"api": "Produc"},
            400,
            {"field": "api", "problem": "'Produc' is not an API of Kafka; did you mean Produce?"},
        ),
        ("GET", "/requests", {"after": "x"}, 400, {"field": "after", "problem": "'x' is not a whole number"}),
    ],
)
def test_a_failed_command_has_its_reason(
    say: ControlDriver, method: str, path: str, fields: dict[str, Any], status: int, body: dict[str, str]
) -> None:
    response = say.do(method, path, fields)
    assert response.status == status
    assert response.body["problem"].startswith(body.pop("problem"))
    assert {name: value for name, value in response.body.items() if name != "problem"} == body


def test_commands_of_a_stopped_broker_are_refused(say: ControlDriver) -> None:
    say("POST", "/stop")
    for method, path, fields in (("GET", "/topics", {}), ("POST", "/topics", {"name": "t"}), ("GET", "/metrics", {})):
        response = say.do(method, path, fields)
        assert (response.status, response.body["problem"]) == (409, "the broker does not run")


def test_a_failed_start_has_its_reason(say: ControlDriver) -> None:
    say("POST", "/stop")
    other = RestartableBroker({"listeners": "PLAINTEXT://127.0.0.1:0"}, say.broker._data_dir)
    say.loop.run_until_complete(other.start())
    response = say.do("POST", "/start")
    assert response.status == 409
    assert "in use by another broker" in response.body["problem"]
    say.loop.run_until_complete(other.stop())


def test_an_error_response_is_raised() -> None:
    assert ControlResponse(body={"a": 1}).result() == {"a": 1}
    with pytest.raises(FieldError, match="ms: the field is missing"):
        ControlResponse(status=400, body={"field": "ms", "problem": "the field is missing"}).result()
    with pytest.raises(KafkaError, match=r"why.*\(POLICY_VIOLATION, "):
        ControlResponse(status=400, body={"error": "POLICY_VIOLATION", "problem": "why"}).result()
    with pytest.raises(LookupError, match="no fault 9"):
        ControlResponse(status=404, body={"problem": "there is no fault 9"}).result()
    with pytest.raises(RuntimeError, match="does not run"):
        ControlResponse(status=409, body={"problem": "the broker does not run"}).result()
