import pytest

from tests.support.spark.fake_offsets import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster().add("t", 10, 4)
