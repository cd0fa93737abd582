"""Make docs/connector.md from the features and the tests' marks: ``python -m docs.features``, or ``make docs``.

What is compared stands in `tests.support.features`; which tests show it, and on what, is read from the tests themselves
(`tests.support.feature_marks`). A test compares the page with what this module makes, and fails for a feature that no
test shows.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from docs.build import table
from tests.support.feature import Feature
from tests.support.feature_marks import Kind, Marked, marked_tests
from tests.support.features import FEATURES, SECTIONS

REPOSITORY = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("connector.md")

_HEAD = """\
# Beside Spark's JVM connector

Made by `make docs` from the tests; edits here are lost. For every option, column, error and behaviour of Spark's JVM
connector for Kafka (`format("kafka")`): what it does, what `format("pykafka")` does, and the tests that show it. At the
end stand things that only this one has.

To change from the one to the other, change the format's name. Options, queries and checkpoints stay, except for what
follows.
"""

_FORBIDDEN = """
## What Spark does not let a Python source do

Spark's Python Data Source API has no door for these. What to do in their place:

"""

_TESTED = """
How each row is tested: *unit* without any server; on the *bundled broker*; on *Apache Kafka*; or *beside the JVM
connector*, where both connectors do the same work on the same Apache Kafka and the results are compared. Each links to
one of the tests.
"""


def connector_page(tests: Sequence[Marked]) -> str:
    """The whole page, as Markdown."""
    shown: dict[str, list[Marked]] = {}
    for test in tests:
        shown.setdefault(test.feature, []).append(test)
    parts = [_HEAD, _FORBIDDEN]
    parts += [f"- **{row.feature}**: {row.api}.\n" for row in FEATURES.values() if row.api]
    parts.append(_TESTED)
    for section in SECTIONS:
        rows = [_row(row, shown.get(row.id, ())) for row in section.features]
        parts += [f"\n## {section.title}\n\n", table(("Feature", "JVM connector", "pykafka", "Tested"), rows)]
    return "".join(parts)


def _row(row: Feature, tests: Iterable[Marked]) -> tuple[str, ...]:
    return row.feature, row.jvm, row.ours, _tested(tests)


def _tested(tests: Iterable[Marked]) -> str:
    first: Mapping[str, Marked] = {kind: test for test in sorted(tests, reverse=True) for kind in test.kinds}
    return ", ".join(f"[{kind.value}](../{first[kind.value].path})" for kind in Kind if kind.value in first) or "-"


if __name__ == "__main__":
    PAGE.write_text(connector_page(marked_tests(REPOSITORY)), encoding="utf-8")
