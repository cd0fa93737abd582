from collections import Counter
from pathlib import Path

import pytest

from tests.long.suites import failures, summary
from tests.support.features.junit import Case, Outcome, read_cases
from tests.support.report import printed

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" tests="5">
<testcase classname="a" name="test_one[bundled-1]" file="tests/a.py" line="3" time="0.5"/>
<testcase classname="a" name="test_one[apache-1]" file="tests/a.py" line="3" time="1.25"/>
<testcase classname="a" name="test_bundled_things" file="tests/a.py" line="9" time="0"><failure
 message="AssertionError: 1 != 2&#10;more">text</failure></testcase>
<testcase classname="b" name="test_two" file="tests/b.py" line="3" time="0"><skipped type="pytest.skip"
 message="no Go"/></testcase>
<testcase classname="b" name="test_three[x-bundled]" file="tests/b.py" line="5" time="0"><error
 message="in its fixture"/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    return list(read_cases(report))


def test_cases_are_read(cases: list[Case]) -> None:
    assert [(case.outcome, case.broker, case.reason) for case in cases] == [
        (Outcome.PASSED, "bundled", ""),
        (Outcome.PASSED, "apache", ""),
        (Outcome.FAILED, "", "AssertionError: 1 != 2"),
        (Outcome.SKIPPED, "", "no Go"),
        (Outcome.FAILED, "bundled", "in its fixture"),
    ]
    assert cases[1].seconds == 1.25
    assert cases[0].within(", again").file == "tests/a.py, again"


def test_a_row_for_each_file_and_one_for_all(cases: list[Case]) -> None:
    head, _, *rows = printed(summary(cases))
    assert head == "| tests | bundled broker | Apache Kafka | other | failed | skipped | seconds |"
    assert rows == [
        "| tests/a.py | 1 | 1 | | 1 | | 2 |",
        "| tests/b.py | | | | 1 | 1 | 0 |",
        "| all | 1 | 1 | | 2 | 1 | 2 |",
    ]


def test_tests_without_a_broker_parameter_have_one_column(cases: list[Case]) -> None:
    head, _, *rows = printed(summary([case for case in cases if not case.broker]))
    assert head == "| tests | passed | failed | skipped | seconds |"
    assert rows == ["| tests/a.py | | 1 | | 0 |", "| tests/b.py | | | 1 | 0 |", "| all | | 1 | 1 | 0 |"]


def test_what_failed_and_what_was_left_out(cases: list[Case]) -> None:
    failed_title, failed, left_title, left = failures(cases, Counter({"everything on the moon: no rocket": 1}))
    assert (failed_title, left_title) == ("## Failed", "## Left out")
    assert printed(failed)[2:] == [
        "| tests/a.py::test_bundled_things | AssertionError: 1 != 2 |",
        "| tests/b.py::test_three[x-bundled] | in its fixture |",
    ]
    assert printed(left)[2:] == ["| 1 | everything on the moon: no rocket |", "| 1 | tests/b.py: no Go |"]
    assert list(failures(cases[:2], Counter())) == []
