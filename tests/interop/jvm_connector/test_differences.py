"""The list of meant differences names cases that exist."""

import pytest

from tests.support.spark.connector_cases import BAD_BATCHES, BAD_STREAMS, BATCHES, STREAMS
from tests.support.spark.connector_differences import DIFFERENCES
from tests.support.spark.sink_cases import REFUSED, WRITTEN

pytestmark = [pytest.mark.interop, pytest.mark.spark]

CASES = [*BATCHES, *BAD_BATCHES, *STREAMS, *BAD_STREAMS, *WRITTEN, *REFUSED, "sink: complete", "sink: update"]


def test_every_difference_belongs_to_a_case() -> None:
    assert sorted(DIFFERENCES.keys() - set(CASES)) == []


def test_no_two_cases_have_one_name() -> None:
    assert sorted({case for case in CASES if CASES.count(case) > 1}) == []
