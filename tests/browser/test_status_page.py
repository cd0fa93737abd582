"""The status page in a real browser: `make test-browser`."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from selenium.webdriver.support.select import Select

from broker_embedded._server.http import HttpRequest, HttpResponse
from broker_embedded._server.status.page import StatusPage
from broker_embedded.testing import EmbeddedBroker
from tests.browser.chromium import Browser, browser
from tests.support.broker.status_page import AVRO_SCHEMA, MARKUP, TIME_MS, VIEWS, filled_broker

pytestmark = pytest.mark.interop

UNSAFE: Final = 2**53 + 1
"""An integer that a double does not hold."""
Respond: TypeAlias = Callable[[dict[str, Any]], HttpResponse | None]
Intercept: TypeAlias = Callable[[Respond], None]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with filled_broker(tmp_path_factory.mktemp("status") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def chromium(broker: EmbeddedBroker) -> Iterator[Browser]:
    with browser(broker.status_page_url) as found:
        yield found


@pytest.fixture
def page(chromium: Browser) -> Iterator[Browser]:
    """The browser, whose console must have no messages at the end."""
    yield chromium
    assert chromium.errors == []


@pytest.fixture
def intercept(monkeypatch: pytest.MonkeyPatch) -> Intercept:
    """Respond to requests for records in place of the broker. The function gets their fields; None: the broker does."""
    respond = StatusPage.respond

    def intercept(function: Respond) -> None:
        async def intercepted(page: StatusPage, request: HttpRequest) -> HttpResponse:
            response = function(request.fields()) if request.path == "/api/records" else None
            return response or await respond(page, request)

        monkeypatch.setattr(StatusPage, "respond", intercepted)

    return intercept


def busy(retry_after: str) -> HttpResponse:
    """A response that permits to repeat the request."""
    return HttpResponse(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        content_type="application/json",
        body=b'{"problem": "the worker is busy"}',
        headers={"Retry-After": retry_after},
    )


def records_page(offset: int, next_offset: int, problems: list[str]) -> HttpResponse:
    """A page without records of a partition whose high watermark is UNSAFE + 2."""
    page = {
        "offset": offset,
        "next_offset": next_offset,
        "high_watermark": UNSAFE + 2,
        "problems": problems,
        "rows": [],
    }
    return HttpResponse(content_type="application/json", body=json.dumps(page).encode())


def produce(broker: EmbeddedBroker, *records: dict[str, Any]) -> None:
    """Produce records, and wait for their acknowledgements."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for record in records:
        producer.produce(**record)
    assert producer.flush(60) == 0


def search(page: Browser, **fields: str) -> None:
    """Fill the form for records, and search. The fields are labels."""
    for label, value in fields.items():
        field = page.field(label.replace("_", " "))
        if field.tag_name == "select":
            Select(field).select_by_visible_text(value)
        else:
            field.clear()
            field.send_keys(value)
    page.named("button", "Search").click()


def test_the_overview_shows_topics_groups_and_the_lag(page: Browser) -> None:
    page.open("overview")
    page.until(lambda: "views" in page.cells(0))
    expected = {"__consumer_offsets", "__transaction_state", "avro", "binary", "empty", "orders", "views"}
    assert expected <= set(page.cells(0))
    assert page.cells(0) == sorted(page.cells(0))
    assert page.one("#node").text == "1"
    assert page.named("a", "view-report").is_displayed()
    assert page.named("td", str(2 * (VIEWS // 3 - 60))).is_displayed()
    assert page.title == "Broker status: overview"


def test_links_lead_from_the_overview_to_a_record(page: Browser) -> None:
    page.open("overview")
    page.named("a", "views").click()
    page.until(lambda: page.cells(0) == ["0", "1", "2"])
    assert page.cells(7) == [f"{VIEWS // 3}"] * 3  # high watermarks
    page.named("a", "1").click()
    page.until(lambda: len(page.cells(1)) == 50)
    assert page.cells(1)[-1] == "99"
    page.named("button", "99").click()
    page.until(lambda: "9007199254741291" in page.one("tr.detail").text)  # larger than a double holds
    assert "\nHeaders\nName Value\ntrace 298\nnone null\n" in page.one("tr.detail").text
    page.named("button", "99").click()
    page.until(lambda: not page.all("tr.detail"))


def test_topics_are_filtered(page: Browser) -> None:
    page.open("topics")
    page.field("Topics that contain").send_keys("VIEW\n")
    page.until(lambda: page.cells(0) == ["views"])


def test_a_group_shows_members_and_lag(page: Browser) -> None:
    page.open("group?id=view-report")
    page.until(lambda: page.cells(0) == ["views", "views"])
    assert page.cells(4) == [str(VIEWS // 3 - 60)] * 2
    assert "views-0, views-1, views-2" in page.one("main").text


def test_transactions_connections_and_requests(page: Browser) -> None:
    page.open("transactions")
    page.until(lambda: page.cells(0) == ["order-writer"])
    assert page.cells(1) == ["Ongoing"]
    page.named("a", "Connections").click()
    page.until(lambda: "orders" in page.cells(3))
    assert page.all("nav a[aria-current]")[0].text == "Connections"
    page.named("a", "Requests").click()
    page.until(lambda: "Produce" in page.cells(0))


def test_records_are_found_by_key_over_all_partitions(page: Browser) -> None:
    page.open("records?topic=views")
    search(page, Key_is="user-6")
    page.until(lambda: len(page.cells(1)) == VIEWS // 20)
    assert set(page.cells(3)) == {"user-6"}
    assert page.cells(2) == sorted(page.cells(2))  # by time
    page.until(lambda: "15 records. The end is reached." in page.one("main").text)


def test_records_are_found_by_time_and_offset(page: Browser) -> None:
    local = datetime.fromtimestamp(TIME_MS / 1000 + 150)  # the page uses the browser's time zone
    page.open(f"records?topic=views&partition=0&start=time&time={local.isoformat()}&limit=2")
    page.until(lambda: page.cells(1) == ["50", "51"])
    page.named("button", "More records").click()
    page.until(lambda: page.cells(1) == ["50", "51", "52", "53"])
    page.open("records?topic=views&partition=0&start=offset&offset=7&limit=1")
    page.until(lambda: page.cells(1) == ["7"])


def test_outcomes_of_transactions_are_shown(page: Browser) -> None:
    page.open("records?topic=orders")
    page.until(lambda: len(page.cells(5)) == 8)
    assert page.cells(5) == ["committed"] * 2 + ["marker COMMIT"] + ["aborted"] * 2 + ["marker ABORT"] + ["open"] * 2


def test_json_is_indented_and_keeps_its_numbers(page: Browser) -> None:
    page.open("records?topic=views&partition=0&format=json&start=offset&offset=0&limit=1")
    page.named("button", "0").click()
    page.until(lambda: '  "id": 9007199254740993,' in page.one("tr.detail").text)
    assert '"tags": []' in page.one("tr.detail").text


def test_avro_is_decoded_with_a_pasted_schema(page: Browser) -> None:
    page.open("records?topic=avro&format=avro&limit=6")
    search(page, Avro_schema=json.dumps(AVRO_SCHEMA))
    page.until(lambda: '"item": "tea"' in page.one("main").text)
    assert page.cells(4)[0].startswith('{ "id": 0, "item": "tea"')
    page.field("Confluent").click()
    page.named("button", "Search").click()
    page.until(lambda: any(value.startswith('{ "id": 0') for value in page.cells(4)[1:2]))


def test_bytes_are_shown_as_hex(page: Browser) -> None:
    page.open("records?topic=binary")
    page.until(lambda: len(page.cells(1)) == 3)
    assert page.cells(3)[0] == "ff 00"
    assert page.cells(4)[0].startswith("00 01 02 03")
    page.named("button", "0").click()
    page.until(lambda: "000040  40 41 42" in page.one("tr.detail pre:nth-of-type(2)").text)
    assert "@ABCDEFGHIJKLMNO" in page.one("tr.detail").text
    page.named("button", "2").click()
    page.until(lambda: any("\nValue, 195.3 KiB\n" in each.text for each in page.all("tr.detail")))  # all of it


def test_markup_in_records_is_shown_as_text(page: Browser) -> None:
    page.open("records?topic=binary")
    page.until(lambda: page.cells(3)[1:2] == [MARKUP])
    assert page.cells(4)[1] == "null"
    assert not page.all("main img")
    assert page.title == "Broker status: records"


def test_an_unknown_topic_is_an_error_on_the_page(chromium: Browser) -> None:
    chromium.open("topic?name=none")
    chromium.until(lambda: chromium.one("#state").text == "there is no topic 'none'")
    assert any("404" in message for message in chromium.errors)


def test_a_running_search_keeps_its_fields_and_open_details(
    page: Browser, intercept: Callable[[Respond], None]
) -> None:
    held = {1}
    intercept(lambda fields: busy("1") if fields["partition"] in held else None)
    page.open("records?topic=views&key=user-6")
    page.until(lambda: len(page.cells(1)) == 5)  # of partition 0
    page.until(lambda: page.progress == "the worker is busy")
    page.named("button", page.cells(1)[2]).click()
    page.until(lambda: "trace" in page.one("tr.detail").text)
    field = page.field("Key is")
    field.clear()
    field.send_keys("user-3")
    held.clear()
    page.until(lambda: page.progress == "15 records. The end is reached.")
    assert set(page.cells(3)) == {"user-6"}
    assert page.cells(2) == sorted(page.cells(2))
    assert "trace" in page.one("tr.detail").text
    assert all("503" in message for message in page.errors)


def test_a_search_ends_when_its_form_is_replaced(page: Browser, intercept: Intercept) -> None:
    """Also if it is started by a click while the next page is requested."""
    requests: list[object] = []

    def respond(fields: dict[str, Any]) -> HttpResponse:
        requests.append(fields["key"])
        return records_page(len(requests), len(requests) + 1, [])  # a search without an end

    page.open("records?topic=views&partition=0&limit=1")
    page.until(lambda: page.progress.startswith("1 records."))
    intercept(respond)
    page.run(
        "const fetched = window.fetch;"
        "window.fetch = async (...given) => { await window.released; return fetched(...given); };"
        "window.released = new Promise((resolve) => { window.release = resolve; })"
    )
    search(page, Key_is="none")
    page.named("button", "Search").click()
    page.run("window.release()")
    page.until(lambda: len(requests) > 2)
    page.named("button", "Stop").click()
    page.run("location.hash = '#/overview'")
    page.until(lambda: "views" in page.cells(0))
    count = len(requests)
    page.run("return (async () => { for (let number = 0; number < 20; number += 1) await fetch('api/broker'); })()")
    assert len(requests) == count


def test_a_partition_that_cannot_be_read_does_not_end_the_search(page: Browser, intercept: Intercept) -> None:
    failed = HttpResponse(
        status=HTTPStatus.CONFLICT, content_type="application/json", body=b'{"problem": "the log is offline"}'
    )
    intercept(lambda fields: failed if fields["partition"] == 1 else None)
    page.open("records?topic=views&limit=2")
    page.until(lambda: page.progress == "4 records.")
    assert sorted(page.cells(0)) == ["0", "0", "2", "2"]
    assert [note.text for note in page.all("main p.warn")] == ["Partition 1: the log is offline"]
    assert all("409" in message for message in page.errors)


def test_more_records_continue_the_search_and_keep_open_details(page: Browser) -> None:
    page.open("records?topic=views&partition=0&start=offset&offset=0&key=user-0&limit=2")
    page.until(lambda: len(page.cells(1)) == 2)
    page.named("button", "0").click()
    page.until(lambda: "trace" in page.one("tr.detail").text)
    for label, text in (("Key is", "user-3"), ("Offset", "30")):
        page.field(label).clear()
        page.field(label).send_keys(text)
    page.named("button", "More records").click()
    page.until(lambda: len(page.cells(1)) == 4)
    assert page.cells(1) == ["0", "20", "40", "60"]
    assert set(page.cells(3)) == {"user-0"}
    assert "trace" in page.one("tr.detail").text
    page.named("button", "Search").click()  # the fields as they are now
    page.until(lambda: page.cells(1) == ["41", "61"])
    assert set(page.cells(3)) == {"user-3"}


def test_a_search_of_many_partitions_has_a_bounded_table(page: Browser, broker: EmbeddedBroker) -> None:
    broker.create_topic("many", partitions=100)
    values = [{"topic": "many", "partition": number % 100, "value": "x" * 100} for number in range(20_000)]
    produce(broker, *values)
    page.open("records?topic=many&start=offset&offset=0&limit=200")
    page.until(lambda: page.progress.startswith("2,000 records. These are at most 20 of each partition"))
    assert sorted(page.cells(1)) == sorted([str(offset) for offset in range(20)] * 100)
    page.named("button", "Next records (replaces these)").click()
    page.until(lambda: page.cells(1)[:1] == ["20"] and page.progress.startswith("2,000 records."))
    assert sorted(page.cells(1)) == sorted([str(offset) for offset in range(20, 40)] * 100)


def test_problems_are_shown_up_to_a_bound(page: Browser, intercept: Intercept) -> None:
    problems = [f"the batch at offset {offset} is skipped" for offset in range(150)]
    intercept(lambda fields: records_page(0, UNSAFE + 2, problems))
    page.open("records?topic=empty")
    page.until(lambda: page.progress == "0 records. The end is reached.")
    notes = [note.text for note in page.all("main p.warn")]
    assert notes[:100] == [f"Partition 0: {problem}" for problem in problems[:100]]
    assert notes[100:] == ["There are more problems: start at a later offset to see them."]


def test_a_search_continues_at_offsets_that_no_double_holds(
    page: Browser, intercept: Callable[[Respond], None]
) -> None:
    offsets: list[object] = []

    def respond(fields: dict[str, Any]) -> HttpResponse:
        offsets.append(fields.get("offset"))
        return records_page(UNSAFE - 1, UNSAFE, []) if len(offsets) == 1 else records_page(UNSAFE, UNSAFE + 2, [])

    intercept(respond)
    page.open("records?topic=empty")
    page.until(lambda: page.progress == "0 records. The end is reached.")
    assert offsets == [None, str(UNSAFE)]


def test_integers_that_no_double_holds_are_exact(page: Browser, broker: EmbeddedBroker) -> None:
    broker.create_topic("times", partitions=2, configs={"message.timestamp.after.max.ms": str(2**63 - 1)})
    time_ns = TIME_MS * 1_000_000 + 123
    times = [(0, time_ns + 1), (1, time_ns), (1, TIME_MS)]
    produce(broker, *({"topic": "times", "partition": index, "timestamp": time} for index, time in times))
    page.open("records?topic=times")
    page.until(lambda: len(page.cells(2)) == 3)
    assert page.cells(2)[1:] == [str(time_ns), str(time_ns + 1)]
    page.named("button", page.cells(1)[1]).click()
    page.until(lambda: f"CreateTime {time_ns}." in page.one("tr.detail").text)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "far", "log_level": 0})
    consumer.commit(offsets=[TopicPartition("times", 0, UNSAFE)], asynchronous=False)
    consumer.close()
    page.open("group?id=far")
    page.until(lambda: page.cells(2) == [f"{UNSAFE:,}"])
    assert page.cells(4) == ["\N{EN DASH}"]
    title = page.one("main td:nth-child(5) [title]").get_attribute("title")
    assert title.endswith("the committed offset is greater than the high watermark.")
    page.open("groups?contains=far")
    page.until(lambda: page.cells(6) == ["\N{EN DASH}"])


def test_an_error_response_of_text_is_shown_with_its_status(page: Browser) -> None:
    page.open("records?topic=avro")
    page.until(lambda: page.progress.startswith("6 records."))
    page.run("sessionStorage.setItem('schema', 'x'.repeat(300000))")  # larger than the port reads
    page.open("records?topic=avro&format=avro")
    page.until(lambda: page.progress.startswith("status 413 "))
    page.run("sessionStorage.clear()")
    assert all("413" in message for message in page.errors)


def test_a_busy_broker_is_a_problem_after_30_repetitions(page: Browser, intercept: Intercept) -> None:
    requests = []

    def respond(fields: dict[str, Any]) -> HttpResponse:
        requests.append(fields)
        return busy("0.01")

    intercept(respond)
    page.open("records?topic=views&partition=0")
    page.until(lambda: page.all("main .bad") != [])
    assert page.progress == "the worker is busy"
    assert len(requests) == 31
    assert all("503" in message for message in page.errors)


def test_the_page_is_updated_while_records_arrive(page: Browser, broker: EmbeddedBroker) -> None:
    page.open("topics?contains=empty")
    page.until(lambda: page.cells(6) == ["0"])
    page.run("document.querySelector('main').style.width = '400px'")
    page.run("document.querySelector('td a').focus()")
    page.run("document.querySelector('.scroll').scrollLeft = 50")
    page.run("window.row = document.querySelector('td a').closest('tr')")
    page.run("getSelection().selectAllChildren(document.querySelector('h2'))")
    produce(broker, {"topic": "empty", "value": b"x"})
    page.until(lambda: page.one("#state").text == "Not updated while text is selected")
    assert page.cells(6) == ["0"]
    page.run("getSelection().removeAllRanges()")
    page.until(lambda: page.cells(6) == ["1"])
    assert page.run("return document.querySelector('.scroll').scrollLeft") == 50
    assert page.run("return document.activeElement.textContent") == "empty"
    assert page.run("return window.row.isConnected")
    broker.create_topic("a-empty")
    page.until(lambda: page.cells(0) == ["a-empty", "empty"])
    assert page.run("return document.activeElement.textContent") == "empty"
