"""A target, and topics to load into it."""

from pathlib import Path

import pytest

from tests.support.reload_driver import Story


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Nothing produced, nothing loaded."""
    return Story(tmp_path / "target")
