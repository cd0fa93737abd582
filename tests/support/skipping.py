"""Skipping tests that cannot run on this machine."""

import pytest


def skip_if(reason: str | None) -> None:
    """Skip the test, or all tests of the fixture, if there is a reason."""
    if reason is not None:
        pytest.skip(reason)
