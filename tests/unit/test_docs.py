"""docs/options.md is what docs/build.py makes, and that is whole and true.

Examples on other pages define their names, or the text says what they are.
"""

import ast
import builtins
from pathlib import Path

import pytest

from broker_embedded._config.config import BrokerConfig
from broker_embedded._config.consumer_settings import GroupSettings
from broker_embedded._config.listener_settings import prefixed_settings
from broker_embedded._config.log_config import LogConfig
from broker_embedded._config.releases import NOT_SERVED, api_names
from broker_embedded._config.settings import Setting
from broker_embedded._config.unused_settings import unused_settings
from broker_embedded._server.status import record_reader, records, worker_process
from docs import build
from spark_kafka_native._client.config import PROPERTIES
from spark_kafka_native._client.discovery_config import DISCOVERY_PROPERTIES
from spark_kafka_native._record_clients.consumer.group_config import PROPERTIES as CONSUMER_PROPERTIES
from spark_kafka_native._record_clients.producer.config import PROPERTIES as PRODUCER_PROPERTIES
from spark_kafka_native._spark.errors import OptionError
from spark_kafka_native._spark.options.parsing import Query, parse_source_options
from spark_kafka_native._spark.options.table import SINK_OPTIONS, SOURCE_OPTIONS
from tests.support.pages import read_blocks

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in sorted(DOCS.glob("*.md"))}
OPTION_TABLE = "\n| option | default | meaning |\n"


@pytest.fixture(scope="module")
def page() -> str:
    return build.options_page()


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


def test_the_limits_of_the_status_page_are_those_of_the_code() -> None:
    per_batch = (
        record_reader._MAX_BATCH_BYTES / 2**20,
        records._MAX_DECOMPRESSED_BYTES / 2**20,
        records._MAX_BATCH_RECORDS,
    )
    limits = (
        f"for {record_reader._LOOKUP_S:g} s at most",
        f"{worker_process.MEMORY_BYTES / 2**30:g} GiB of memory and {worker_process.CPU_S:g} s of processor time",
        "batches of more than {:g} MiB, {:g} MiB decompressed or {:,} records".format(*per_batch),
    )
    text = " ".join(PAGES["operations"].split())
    assert [limit for limit in limits if limit not in text] == []


@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if OPTION_TABLE in text])
def test_a_table_of_options_has_their_defaults(page: str) -> None:
    declared = {option.name: str(option.default or "") for option in (*SOURCE_OPTIONS, *SINK_OPTIONS)}
    _, _, table = PAGES[page].partition(OPTION_TABLE)
    rows = [line.split("|") for line in table.partition("\n\n")[0].splitlines()[1:]]
    shown = {name.strip("` "): default.strip() for _, name, default, *_ in rows}
    assert len(shown) == len(rows) > 1
    assert shown == {name: declared[name] for name in shown}


def names_of(code: str) -> tuple[set[str], set[str]]:
    """The names that Python code defines, and those that it uses."""
    defined: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.alias):
            defined.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            defined |= {node.name, *(argument.arg for argument in node.args.args)}
        elif isinstance(node, ast.ClassDef | ast.ExceptHandler):
            defined |= {node.name or ""}
        elif isinstance(node, ast.Lambda):
            defined |= {argument.arg for argument in node.args.args}
    return defined, used


BLOCKS = {page: read_blocks(DOCS / f"{page}.md") for page in PAGES}
EXAMPLES = {page: [each for each in BLOCKS[page] if each.kind.startswith("python")] for page in PAGES}


@pytest.mark.parametrize("page", [page for page, blocks in EXAMPLES.items() if blocks])
def test_names_in_examples_are_defined_before_or_explained(page: str) -> None:
    lines = PAGES[page].splitlines()
    known = set(dir(builtins))
    for block in EXAMPLES[page]:
        defined, used = names_of(block.code)
        known |= defined
        before = "\n".join(lines[: block.line])
        assert {name for name in used - known if f"`{name}`" not in before} == set(), block.code


def test_every_table_is_there_whole(sections: dict[str, list[list[str]]]) -> None:
    assert {title: [row[0].strip("`") for row in rows] for title, rows in sections.items()} == {
        "Source options": [option.name for option in SOURCE_OPTIONS],
        "Sink options": [option.name for option in SINK_OPTIONS],
        "Kafka client properties": list(PROPERTIES),
        "Producer properties": list(PRODUCER_PROPERTIES),
        "Consumer properties": list(CONSUMER_PROPERTIES),
        "Client properties of ZooKeeper": list(DISCOVERY_PROPERTIES),
        "Broker settings": list(BrokerConfig.settings()),
        "Settings without effect": list(unused_settings()),
        "Listener settings": list(prefixed_settings()),
        "Topic configs": list(LogConfig.settings()),
        "Group configs": list(GroupSettings.settings()),
        "Releases": ["`, `".join(api_names()[key] for key in keys) for keys in NOT_SERVED.values()],
    }


def test_options_say_in_which_queries_they_are_valid(page: str, sections: dict[str, list[list[str]]]) -> None:
    assert "| `maxOffsetsPerTrigger` |  | stream | at least 1 |" in page
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


def test_defaults_are_written_as_in_an_option(sections: dict[str, list[list[str]]]) -> None:
    for name, default, *_ in sections["Kafka client properties"]:
        declared = PROPERTIES[name.strip("`")]
        if default:
            assert declared.type.parse(default.strip("`")) == declared.default, name
    settings: dict[str, dict[str, Setting]] = {
        "Broker settings": BrokerConfig.settings(),
        "Settings without effect": dict(unused_settings()),
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
