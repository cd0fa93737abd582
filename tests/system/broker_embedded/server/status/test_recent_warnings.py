import logging
import subprocess
import sys
from collections.abc import Iterator

import pytest

from broker_embedded._server.status.recent_warnings import RecentWarnings

LOGGER = logging.getLogger("broker_embedded.test_recent_warnings")


@pytest.fixture
def recent() -> Iterator[RecentWarnings]:
    found = RecentWarnings()
    found.start()
    yield found
    found.stop()


def test_the_last_100_warnings_are_stored_and_shortened(recent: RecentWarnings) -> None:
    for number in range(150):
        LOGGER.warning("number %d%s", number, "x" * 2000)
    assert len(recent.warnings) == 100
    first = recent.warnings[0]
    assert (first.level, first.logger) == ("WARNING", LOGGER.name)
    assert first.text == f"number 149{'x' * 2000}"[:1000]
    assert recent.warnings[-1].text.startswith("number 50x")


def test_messages_below_warning_and_of_other_packages_are_not_stored(recent: RecentWarnings) -> None:
    LOGGER.info("started")
    logging.getLogger("other").error("not ours")
    assert recent.warnings == ()


def test_an_exception_is_part_of_the_text(recent: RecentWarnings) -> None:
    try:
        raise OSError(28, "No space left on device")
    except OSError:
        LOGGER.exception("cannot write t-0")
    assert recent.warnings[0].text == "cannot write t-0: OSError(28, 'No space left on device')"


def test_no_warning_is_stored_after_stop(recent: RecentWarnings) -> None:
    recent.stop()
    LOGGER.warning("late")
    assert recent.warnings == ()


@pytest.mark.parametrize("configure", ["", "logging.basicConfig()"])
def test_warnings_are_printed_once_as_without_the_page(configure: str) -> None:
    program = f"""
import logging
from broker_embedded._server.status.recent_warnings import RecentWarnings
{configure}
first, second = RecentWarnings(), RecentWarnings()
first.start()
second.start()
logging.getLogger("broker_embedded.x").warning("the disk is slow")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.count("the disk is slow") == 1
