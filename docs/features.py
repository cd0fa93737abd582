"""Make docs/connector.md from the features and the tests' marks: ``python -m docs.features``, or ``make docs``.

`tests.support.features.table` has the rows. `tests.support.features.marks` finds the tests that show them, and what
those run on. A test compares the page with what this module makes, and another fails for a feature without any test.
"""

from collections.abc import Container, Iterable, Mapping, Set
from pathlib import Path

from docs.build import table
from tests.long.kill import read_log
from tests.support.features.marks import Kind, Marked, marked_tests, read_record
from tests.support.features.table import FEATURES, SECTIONS

REPOSITORY = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("connector.md")

_HEAD = """\
# Comparison with Spark's JVM connector

`make docs` generates this page from the tests; edits are lost. The tables compare Spark's JVM connector
(`format("kafka")`) with `format("pykafka")`: each option, column, error and behaviour, with the tests that show it. The
last table lists features that only pykafka has.

To change from one connector to the other, change the format's name. Options, queries and checkpoints stay the same,
except for the limits below.
"""

_FORBIDDEN = """
## Limits of Spark's Python Data Source API

Spark's Python Data Source API does not support these features. The alternatives:

"""

_TESTED = """
The last column says how a row is tested, and links to one of its tests:

- *without a broker*: with no broker, or with a scripted one;
- on the *bundled broker*;
- on *Apache Kafka*;
- *beside the JVM connector*: both connectors do the same work on the same Apache Kafka, and the results are compared.

Tests that `make test` does not run count if they passed in their last run.
"""


def connector_page(tests: Iterable[Marked], passed: Container[str]) -> str:
    """The whole page, as Markdown, from the marked tests and the names of those run by hand that passed."""
    shown: dict[str, dict[str, str]] = {}
    for test in sorted(tests, reverse=True):
        if not test.by_hand or test.name in passed:
            for feature in test.features:
                shown.setdefault(feature, {}).update(dict.fromkeys(test.kinds, test.path))
    parts = [_HEAD, _FORBIDDEN]
    parts += [f"- **{row.feature}**: {row.api}.\n" for row in FEATURES.values() if row.api]
    parts.append(_TESTED)
    for section in SECTIONS:
        rows = [(row.feature, row.jvm, row.ours, _tested(shown.get(row.id, {}))) for row in section.features]
        parts += [f"\n## {section.title}\n\n", table(("Feature", "JVM connector", "pykafka", "Tested"), rows)]
    return "".join(parts)


def passed_by_hand() -> Set[str]:
    """The names of tests that `make test` leaves out and that passed when they last ran, in a suite or a kill round."""
    rounds = {each.test: each.passed for each in read_log()}
    return read_record().keys() | {test for test, passed in rounds.items() if passed}


def _tested(by_kind: Mapping[str, str]) -> str:
    return ", ".join(f"[{kind}](../{by_kind[kind]})" for kind in Kind if kind in by_kind) or "not tested"


if __name__ == "__main__":
    PAGE.write_text(connector_page(marked_tests(REPOSITORY), passed_by_hand()), encoding="utf-8")
