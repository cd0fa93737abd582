"""What one connector refuses the other refuses, and ours says which option or partition is wrong."""

from pathlib import Path

import pytest

from tests.support.features.feature import by_name
from tests.support.spark.connector_cases import BAD_BATCHES, BAD_STREAMS
from tests.support.spark.connector_differences import differing, meant
from tests.support.spark.hard_topics import HardTopics
from tests.support.spark.jvm_connector import BothConnectors
from tests.support.spark.session_functions import read, stream

pytestmark = [pytest.mark.interop, pytest.mark.spark]

QUICK = {"fetchOffset.retryIntervalMs": "50", "fetchOffset.numRetries": "1"}


@pytest.mark.parametrize("case", by_name(BAD_BATCHES))
def test_batches_are_refused_by_both(both: BothConnectors, topics: HardTopics, case: str) -> None:
    bad = BAD_BATCHES[case]
    theirs, ours = both.compare(read, {**QUICK, "kafka.bootstrap.servers": topics.servers, **bad.options})
    assert ours.error is not None
    assert bad.names.lower() in ours.error.lower()
    assert differing(ours, theirs, "error") == meant(case)


@pytest.mark.parametrize("case", by_name(BAD_STREAMS))
def test_streams_are_refused_by_both(both: BothConnectors, topics: HardTopics, case: str, tmp_path: Path) -> None:
    bad = BAD_STREAMS[case]
    theirs, ours = both.compare(stream, {**QUICK, "kafka.bootstrap.servers": topics.servers, **bad.options}, tmp_path)
    assert ours.error is not None
    assert bad.names.lower() in ours.error.lower()
    assert differing(ours, theirs, "error") == meant(case)
