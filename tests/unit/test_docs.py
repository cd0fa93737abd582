"""docs/options.md is what docs/build.py makes, and what docs/build.py makes is whole and true."""

import runpy
from pathlib import Path

import pytest

from broker_embedded.config import BrokerConfig
from broker_embedded.consumer_settings import GroupSettings
from broker_embedded.listener_settings import prefixed_settings
from broker_embedded.log.config import LogConfig
from broker_embedded.releases import NOT_SERVED, api_names
from broker_embedded.settings import Setting
from spark_kafka_native.client.config import PROPERTIES
from spark_kafka_native.spark.errors import OptionError
from spark_kafka_native.spark.options.parsing import Query, parse_source_options
from spark_kafka_native.spark.options.table import SINK_OPTIONS, SOURCE_OPTIONS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def page() -> str:
    text = runpy.run_path(str(DOCS / "build.py"))["options_page"]()
    assert isinstance(text, str)
    return text


@pytest.fixture(scope="module")
def sections(page: str) -> dict[str, list[list[str]]]:
    """The cells of each section's table rows, by the section's title."""
    found: dict[str, list[list[str]]] = {}
    for section in page.split("\n## ")[1:]:
        title, *lines = section.splitlines()
        rows = [line for line in lines if line.startswith("| ")]
        found[title] = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]
    return found


def test_the_committed_page_is_what_the_tables_say(page: str) -> None:
    assert (DOCS / "options.md").read_text(encoding="utf-8") == page, "the tables in code changed: run `make docs`"


def test_every_table_is_there_whole(sections: dict[str, list[list[str]]]) -> None:
    assert {title: [row[0].strip("`") for row in rows] for title, rows in sections.items()} == {
        "Source options": [option.name for option in SOURCE_OPTIONS],
        "Sink options": [option.name for option in SINK_OPTIONS],
        "Kafka client properties": list(PROPERTIES),
        "Broker settings": list(BrokerConfig.settings()),
        "Listener settings": list(prefixed_settings()),
        "Topic configs": list(LogConfig.settings()),
        "Group configs": list(GroupSettings.settings()),
        "Releases": ["`, `".join(api_names()[key] for key in keys) for keys in NOT_SERVED.values()],
    }


def test_options_say_in_which_queries_they_are_valid(page: str, sections: dict[str, list[list[str]]]) -> None:
    assert "| `maxOffsetsPerTrigger` |  | stream | an integer, at least 1 |" in page
    source = sections["Source options"]
    assert source[0][0] == "`kafka.bootstrap.servers`"
    assert {len(row) for row in source} == {5}
    assert {row[2] for row in source} == {"batch, stream", "batch", "stream"}


def test_every_row_has_all_its_cells_and_a_meaning(sections: dict[str, list[list[str]]]) -> None:
    for title, rows in sections.items():
        widths = {len(row) for row in rows}
        assert len(widths) == 1, f"{title}: a cell holds a bare |"
        for row in rows:
            assert row[-1].endswith((".", "...")), f"{title}: {row[0]} has no whole sentence"
            assert row[-2], f"{title}: {row[0]} does not say its values"


def test_defaults_are_spelled_as_users_write_them(sections: dict[str, list[list[str]]]) -> None:
    for name, default, *_ in sections["Kafka client properties"]:
        declared = PROPERTIES[name.strip("`")]
        if default:
            assert declared.parse(default.strip("`")) == declared.default, name
    settings: dict[str, dict[str, Setting]] = {
        "Broker settings": BrokerConfig.settings(),
        "Listener settings": prefixed_settings(),
        "Topic configs": LogConfig.settings(),
        "Group configs": GroupSettings.settings(),
    }
    for title, known in settings.items():
        for name, default, *_ in sections[title]:
            setting = known[name.strip("`")]
            if default:
                assert setting.parse(default.strip("`")) == setting.default, name


@pytest.mark.parametrize("name", ["enable.auto.commit", "auto.offset.reset"])
def test_what_the_page_says_a_source_refuses_it_refuses(name: str, page: str) -> None:
    assert f"`{name}`" in page
    with pytest.raises(OptionError, match=name):
        parse_source_options(
            {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", f"kafka.{name}": "false"}, Query.BATCH
        )
