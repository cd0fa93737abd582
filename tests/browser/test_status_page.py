"""The status page in a real browser: `make test-browser`."""

import json
from collections.abc import Iterator
from datetime import datetime

import pytest
from confluent_kafka import Producer
from selenium.webdriver.support.select import Select

from broker_embedded.testing import EmbeddedBroker
from tests.browser.chromium import Browser, browser
from tests.support.broker.status_page import AVRO_SCHEMA, MARKUP, TIME_MS, VIEWS, filled_broker

pytestmark = pytest.mark.interop


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
    assert page.cells(0) == ["__consumer_offsets", "__transaction_state", "avro", "binary", "empty", "orders", "views"]
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
    assert "trace" in page.one("tr.detail").text
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


def test_the_page_is_updated_while_records_arrive(page: Browser, broker: EmbeddedBroker) -> None:
    page.open("topics?contains=empty")
    page.until(lambda: page.cells(6) == ["0"])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    producer.produce("empty", value=b"x")
    assert producer.flush(60) == 0
    page.until(lambda: page.cells(6) == ["1"])
