import pytest

from tests.support.spark.fake_offsets import FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    fake = FakeCluster()
    fake.add("t", 10, 4)
    return fake
