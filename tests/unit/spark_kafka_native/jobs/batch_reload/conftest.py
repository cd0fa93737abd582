import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.storage.object_storage import ObjectStorage
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage
from tests.support.spark.reload_driver import driver

__all__ = ["driver"]


@pytest.fixture(params=["directory", "object store"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """A directory that is not there yet, or an object store in memory."""
    if request.param == "directory":
        yield LocalStorage(str(tmp_path / "a" / "b"))
        return
    made = ObjectStorage(f"memory://{uuid.uuid4().hex}/a", {})
    yield made
    for path in made.list(""):
        made.remove(path)
