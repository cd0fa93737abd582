import os

import pytest


@pytest.fixture
def seed() -> int:
    """The seed for what a test does at random: the same in every run, but for `SEED` in the environment."""
    return int(os.environ.get("SEED", "1"))
