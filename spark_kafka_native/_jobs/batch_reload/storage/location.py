"""The location of a load, from the job's arguments."""

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.storage.local import LocalStorage
from spark_kafka_native._jobs.batch_reload.storage.object_storage import ObjectStorage
from spark_kafka_native._jobs.batch_reload.storage.storage import Storage


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageLocation:
    """URL and client options of a storage, picklable, so that tasks can open it."""

    url: str
    options: tuple[tuple[str, str], ...] = ()
    """Of the object store's client, such as ``key`` and ``secret``."""

    def __repr__(self) -> str:
        return f"StorageLocation({self.url})"  # options may be secret

    def open(self) -> Storage:
        """The storage. Raises UsageError: no client for such URLs, it cannot keep a load, or the path has a NUL."""
        scheme = urlsplit(self.url).scheme
        if scheme == "file" or "://" not in self.url:
            path = unquote(urlsplit(self.url).path) if scheme == "file" else self.url
            if "\0" in path:
                raise UsageError(f"{self.url!r}: a path has no NUL")
            return LocalStorage(path)
        return ObjectStorage(self.url, dict(self.options))
