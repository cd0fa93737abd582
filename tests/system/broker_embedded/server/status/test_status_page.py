import json
import logging
import re
import urllib.error
import urllib.request
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from broker_embedded._server.status import page as status_page
from broker_embedded._server.status.record_reader import RecordReader
from broker_embedded.testing import EmbeddedBroker
from tests.support.broker.status_page import SETTINGS, TIME_MS, VIEWS, Page

SCRIPTS = {
    file.name: file.read_text()
    for file in (files(status_page.__package__) / "static").iterdir()
    if file.name.endswith(".js")
}

# --- files ------------------------------------------------------------------------------------------------------------


class References(HTMLParser):
    """The addresses that a page loads or links to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, _: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in {"href", "src"} and value is not None]


def test_the_page_and_its_files_are_served_with_a_policy_against_foreign_scripts(page: Page) -> None:
    answer = page.ask("")
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'; script-src 'self'" in answer.headers["Content-Security-Policy"]
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    references = References()
    references.feed(answer.body.decode())
    loaded = [found for found in references.found if not found.startswith(("#", "data:"))]
    assert sorted(set(loaded)) == ["metrics", "status.css", "status.js"]
    for name in loaded:
        assert page.ask(name).status == 200
    head = page.ask("", method="HEAD")
    assert (head.status, head.body) == (200, b"")


def test_every_script_is_imported_or_loaded_by_the_page() -> None:
    imported = set(re.findall(r'^import .* from "\./(.*)";$', "\n".join(SCRIPTS.values()), re.MULTILINE))
    assert imported | {"status.js"} == set(SCRIPTS)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_is_served_as_javascript(page: Page, name: str) -> None:
    answer = page.ask(name)
    assert (answer.status, answer.body.decode()) == (200, SCRIPTS[name])
    assert answer.headers["Content-Type"] == "text/javascript; charset=utf-8"


def test_the_script_asks_for_served_paths_and_sets_no_html(page: Page) -> None:
    script = "\n".join(SCRIPTS.values())
    paths = set(re.findall(r'\b(?:ask|list)\((?:view|\{[^"]*\}), "(\w+)"', script))
    assert paths == {"broker", "topics", "topic", "groups", "group", "transactions", "connections", "records"}
    assert {page.ask(f"api/{path}").status for path in paths} <= {200, 400}  # 400: a field is required
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|Function\(", script)


# --- broker, topics, groups, transactions, connections ----------------------------------------------------------------


def test_the_broker_is_described(page: Page) -> None:
    broker = page.row("broker")
    assert (broker["node_id"], broker["addresses"]) == (1, [page.broker.bootstrap_servers])
    assert (broker["topics"], broker["partitions"], broker["offline_logs"]) == (7, 13, 0)
    assert broker["groups"] == [{"type": "classic", "state": "Stable", "count": 1}]
    assert broker["transactions"] == [{"state": "Ongoing", "count": 1}]
    assert broker["shows_records"]
    produce = next(row for row in broker["requests"] if row["api"] == "Produce")
    assert produce["requests"] > 0
    assert produce["p99_ms"] >= produce["p50_ms"] > 0
    assert produce["errors"] == {}


def test_topics_have_sizes_and_offsets(page: Page) -> None:
    topics = {row["name"]: row for row in page.row("topics")["rows"]}
    assert list(topics) == sorted(topics)
    views = topics["views"]
    assert (views["partitions"], views["replication_factor"], views["offsets"]) == (3, 1, VIEWS)
    assert (views["under_replicated"], views["without_leader"]) == (0, 0)
    assert views["size_bytes"] == views["bytes_in"] > VIEWS
    assert views["messages_in"] == VIEWS
    assert topics["__consumer_offsets"]["is_internal"]
    assert not views["is_internal"]


def test_rows_are_returned_in_pages_and_filtered(page: Page) -> None:
    names, after = [], ""
    while True:
        answer = page.row("topics", limit=2, after=after)
        names += [row["name"] for row in answer["rows"]]
        if answer["next"] is None:
            break
        assert len(answer["rows"]) == 2
        after = answer["next"]
    assert names == ["__consumer_offsets", "__transaction_state", "avro", "binary", "empty", "orders", "views"]
    assert [row["name"] for row in page.row("topics", contains="VIEW")["rows"]] == ["views"]


def test_partitions_of_a_topic(page: Page) -> None:
    topic = page.row("topic", name="views", limit=2)
    assert (topic["partitions"], topic["next"], topic["configs"]) == (3, 2, {})
    first = topic["rows"][0]
    assert (first["leader"], first["replicas"], first["isr"]) == (1, [1], [1])
    assert (first["log_start_offset"], first["high_watermark"], first["segments"]) == (0, VIEWS // 3, 1)
    assert [row["partition"] for row in page.row("topic", name="views", **{"from": 2})["rows"]] == [2]
    orders = page.row("topic", name="orders")["rows"][0]
    assert (orders["last_stable_offset"], orders["high_watermark"], orders["open_transactions"]) == (6, 8, 1)


def test_groups_have_their_lag(page: Page) -> None:
    (row,) = page.row("groups")["rows"]
    lag = 2 * (VIEWS // 3 - 60)
    assert (row["group_id"], row["state"], row["members"]) == ("view-report", "Stable", 1)
    assert (row["committed_partitions"], row["lag"], row["unknown_lags"]) == (2, lag, 0)
    group = page.row("group", id="view-report", limit=1)
    assert group["next"] == 1
    offset = group["rows"][0]
    assert (offset["topic"], offset["partition"], offset["committed_offset"]) == ("views", 0, 60)
    assert (offset["high_watermark"], offset["lag"]) == (VIEWS // 3, lag // 2)
    assert offset["committed_ms"] > TIME_MS
    (member,) = group["member_rows"]
    assert member["client_id"] == "reporter"
    assert member["partitions"] == ["views-0", "views-1", "views-2"]


def test_a_consumer_group_of_the_new_protocol_has_its_members(own_page: Page) -> None:
    servers = own_page.broker.bootstrap_servers
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "new", "group.protocol": "consumer"})
    try:
        consumer.subscribe(["t"])
        while not consumer.assignment():
            consumer.poll(0.1)
        group = own_page.row("group", id="new")
        assert (group["type"], group["members"]) == ("consumer", 1)
        assert [row["partitions"] for row in group["member_rows"]] == [["t-0"]]
    finally:
        consumer.close()


def test_transactions(page: Page) -> None:
    (row,) = page.row("transactions")["rows"]
    assert (row["transactional_id"], row["state"]) == ("order-writer", "Ongoing")
    assert (row["partitions"], row["partition_count"]) == (["orders-0"], 1)
    assert row["started_ms"] > TIME_MS


def test_connections_name_their_client(page: Page) -> None:
    answer = page.row("connections")
    assert answer["count"] == len(answer["rows"])
    by_client = {row["client_id"]: row for row in answer["rows"]}
    row = by_client["orders"]
    assert (row["listener"], row["user"]) == ("PLAINTEXT", "ANONYMOUS")
    assert row["software_name"] == "confluent-kafka-python"
    assert row["idle_ms"] >= 0
    assert re.fullmatch(r"127\.0\.0\.1:\d+", row["peer"])
    first = page.row("connections", limit=1)
    assert [row["peer"] for row in first["rows"]] == [min(row["peer"] for row in answer["rows"])]
    assert first["count"] == answer["count"] > 1


# --- errors and limits ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "fields", "status", "problem"),
    [
        ("nothing", {}, 404, "there is no such page"),
        ("topic", {}, 400, "name: the field is required"),
        ("topic", {"name": "none"}, 404, "there is no topic 'none'"),
        ("topics", {"limit": "0"}, 400, "limit: '0' is not a number from 1 to 500"),
        ("connections", {"limit": "501"}, 400, "limit: '501' is not a number from 1 to 500"),
        ("topics", {"limit": "many"}, 400, "limit: 'many' is not a number from 1 to 500"),
        ("topics", {"x": 1}, 400, "'x': there is no such field; the fields are after, contains, limit"),
        ("broker", {"x": 1}, 400, "'x': there is no such field; the fields are none"),
        ("group", {"id": "none"}, 404, "there is no group 'none'"),
        ("records", {"topic": "none"}, 404, "there is no partition none-0"),
        ("records", {"topic": "views", "partition": 3}, 404, "there is no partition views-3"),
        (
            "records",
            {"topic": "views", "offset": -1},
            400,
            "offset: '-1' is not a number from 0 to 9223372036854775807",
        ),
        ("records", {"topic": "views", "limit": 201}, 400, "limit: '201' is not a number from 1 to 200"),
        ("records", {"topic": "views", "offset": 1, "last": 1}, 400, "only one of offset, timestamp, last may be set"),
        ("records", {"topic": "views", "avro_framing": "x"}, 400, "avro_framing: 'x' is not one of none, confluent"),
    ],
)
def test_errors_name_the_field_or_the_object(
    page: Page, path: str, fields: dict[str, object], status: int, problem: str
) -> None:
    assert page.problem(path, **fields) == (status, problem)


def test_other_methods_and_bodies_are_refused(page: Page) -> None:
    answer = page.ask("api/topics", method="DELETE")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
    assert page.ask("api/topics", method="POST", body={}).status == 405
    assert page.ask("", method="POST", body={}).status == 405
    answer = page.ask("api/records", method="POST", body=[1])
    assert (answer.status, answer.row) == (400, {"problem": "the body is JSON, but not an object"})
    answer = page.ask("api/records", method="POST", body={"topic": 1})
    assert (answer.status, answer.row) == (400, {"problem": "topic: 1 is not text"})
    answer = page.ask("api/records", method="POST", body={"topic": "views", "limit": True})
    assert (answer.status, answer.row) == (400, {"problem": "limit: True is not a number from 1 to 200"})
    answer = page.ask("api/records", method="POST", body={"topic": ["x" * 1000]})
    assert (answer.status, answer.row) == (400, {"problem": "topic: list is not text"})
    answer = page.ask("api/records", method="POST", body={"topic": "views", "key": "\ud800"})
    assert (answer.status, answer.row["problem"].split(" ")[0]) == (400, "key:")
    answer = page.ask("api/records", method="POST", body={"topic": "views", "avro_schema": "x" * 300_000})
    assert (answer.status, answer.body) == (413, b"the body has more than 262144 bytes\n")


@pytest.mark.parametrize("error", [OSError, TimeoutError, RuntimeError])
def test_an_unexpected_error_has_a_response(
    page: Page, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    async def fail(*_: object) -> bytes:
        raise error

    monkeypatch.setattr(RecordReader, "page", fail)
    answer = page.ask("api/records", {"topic": "views"})
    assert (answer.status, answer.body) == (500, b"the request failed; the broker's log says why\n")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "192.0.2.7"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:2"}, 403),
        ({"Host": "127.0.0.1:1", "Origin": "http://127.0.0.1:1"}, 200),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_pages_of_other_sites_are_refused(page: Page, headers: dict[str, str], status: int) -> None:
    for path in ("", "api/topics", "metrics"):
        assert page.ask(path, headers=headers).status == status


@pytest.mark.parametrize("destination", ["document", "iframe"])
def test_other_sites_may_have_links_to_the_page_alone(page: Page, destination: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": destination}
    for path in ("", "metrics"):
        assert page.ask(path, headers=headers).status == (200 if destination == "document" else 403)
    assert page.ask("", headers={**headers, "Host": "evil.example"}).status == 403
    assert page.ask("api/topics", headers=headers).status == 403


def test_the_recent_warnings_are_the_warnings_of_the_log(own_page: Page) -> None:
    logging.getLogger("broker_embedded.test").info("not shown")
    logging.getLogger("broker_embedded.test").warning("disk of %s is slow", "t-0")
    first = own_page.row("broker")["warnings"][0]
    assert (first["level"], first["logger"], first["text"]) == (
        "WARNING",
        "broker_embedded.test",
        "disk of t-0 is slow",
    )


# --- settings ---------------------------------------------------------------------------------------------------------


def test_a_broker_without_a_page_has_no_url(tmp_path: Path) -> None:
    broker = EmbeddedBroker(tmp_path, settings=SETTINGS)
    with pytest.raises(RuntimeError, match=r"set metrics\.listener, and start it"):
        _ = broker.status_page_url
    with EmbeddedBroker(tmp_path) as without, pytest.raises(RuntimeError, match=r"set metrics\.listener"):
        _ = without.status_page_url


def test_the_page_can_show_the_status_without_records(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, topics={"t": 1}, settings=SETTINGS | {"status.page": "status"}) as broker:
        page = Page(broker)
        assert not page.row("broker")["shows_records"]
        assert page.problem("records", topic="t") == (
            403,
            "records are not shown; the setting status.page can allow it",
        )


def test_without_a_page_the_port_serves_metrics_alone(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path, settings=SETTINGS | {"status.page": "none"}) as broker:
        with pytest.raises(RuntimeError, match="no status page"):
            _ = broker.status_page_url
        assert broker._server.metrics_url is not None
        with (
            pytest.raises(urllib.error.HTTPError) as refused,
            urllib.request.urlopen(broker._server.metrics_url.removesuffix("metrics"), timeout=60),
        ):
            pass
        with refused.value as error:
            assert error.code == 403
            assert json.loads(error.read()) == {
                "problem": "the status page is off on this address; the setting status.page can allow it"
            }
