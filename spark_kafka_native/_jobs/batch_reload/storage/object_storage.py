"""Loads in object stores, through fsspec and its clients: s3fs, gcsfs, adlfs.

``create`` is one PUT with the condition that there is no such object yet (S3: ``If-None-Match``, Google:
``ifGenerationMatch=0``, Azure: ``overwrite=False``). An object is visible once its PUT has ended, and never in part.
"""

import contextlib
import importlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import IO, Any, Final
from urllib.parse import urlsplit

from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.storage.storage import SAMPLE_SIZE, Stored

_CONDITIONAL: Final = ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "memory")
"""Schemes whose clients can create an object only if there is none."""
_CLIENTS: Final = {
    **dict.fromkeys(("s3", "s3a"), ("s3fs",)),
    **dict.fromkeys(("gs", "gcs"), ("gcsfs",)),
    **dict.fromkeys(("abfs", "abfss", "az"), ("adlfs",)),
}
"""The package of the client that fsspec has for a scheme."""


class ObjectStorage:
    """A prefix of an object store. The store's client finds credentials, unless options have them."""

    def __init__(self, url: str, options: Mapping[str, str]) -> None:
        """Raises UsageError: not a store that can keep a load, or its client is not installed."""
        self._scheme = scheme = urlsplit(url).scheme
        if scheme not in _CONDITIONAL:
            raise UsageError(
                f"{url}: cannot publish there; it takes a file system, or a store with conditional writes: "
                f"{', '.join(_CONDITIONAL[:-1])}"
            )
        self._url = url.rstrip("/")
        try:
            self._files: Any
            self._files, root = importlib.import_module("fsspec.core").url_to_fs(
                self._url, use_listings_cache=False, **dict(options)
            )
        except ImportError:
            packages = ("fsspec", *_CLIENTS.get(scheme, ()))
            needed = f"the package{'s' if len(packages) > 1 else ''} {' and '.join(packages)}"
            raise UsageError(f"{url} needs {needed}: run `pip install {' '.join(packages)}`") from None
        except Exception as error:  # such as an option that the client does not know
            raise UsageError(f"{url}: {type(error).__name__}: {error}") from None
        self._root = str(root).rstrip("/")

    @property
    def url(self) -> str:
        """The prefix."""
        return self._url

    def location(self, path: str) -> str:
        """The object's URL."""
        return f"{self._url}/{path}"

    def read(self, path: str) -> bytes:
        """An object's content."""
        with self._translated():
            return bytes(self._files.cat_file(self._path(path)))

    def create(self, path: str, data: bytes) -> None:
        """One conditional PUT."""
        with self._translated():
            self._files.pipe_file(self._path(path), data, mode="create")

    def put(self, path: str, data: bytes) -> None:
        """One PUT."""
        with self._translated():
            self._files.pipe_file(self._path(path), data)

    @contextlib.contextmanager
    def open_input(self, path: str) -> Iterator[IO[bytes]]:
        """An object's content as a stream."""
        with self._translated(), self._files.open(self._path(path), "rb") as stream:
            yield stream

    @contextlib.contextmanager
    def open_output(self, path: str) -> Iterator[IO[bytes]]:
        """An upload in parts, which ends when the block is left."""
        with self._files.open(self._path(path), "wb") as stream:
            yield stream

    def list(self, folder: str) -> dict[str, Stored]:
        """Objects whose names begin with the folder's."""
        with self._translated():
            self._files.invalidate_cache()
            found = self._files.find(self._path(folder), detail=True)
        return {
            name.removeprefix(f"{self._root}/"): Stored(int(entry["size"]), self._modified_s(name, entry))
            for name, entry in found.items()
        }

    def sample(self, folder: str) -> tuple[str, ...]:
        """Names below a prefix; S3 and Google return one page, Azure's client reads the whole level."""
        path = self._path(folder).rstrip("/")
        with self._translated():
            self._files.invalidate_cache()
            try:
                if self._scheme in {"s3", "s3a"}:
                    found = self._files.find(path, max_items=SAMPLE_SIZE)
                else:
                    bound = {"max_results": SAMPLE_SIZE} if self._scheme in {"gs", "gcs"} else {}
                    found = self._files.ls(path, detail=False, **bound)
            except FileNotFoundError:
                return ()
        below = f"{path}/"  # a marker of the folder itself, which consoles make, has no name after it
        names = {name.removeprefix(below).partition("/")[0] for name in map(str, found) if name.startswith(below)}
        return tuple(sorted(names - {""})[:SAMPLE_SIZE])

    def prepare(self) -> None:
        """Nothing: a prefix is no object, and the lease shows whether objects can be made."""

    def remove(self, path: str) -> None:
        """Delete an object."""
        with contextlib.suppress(FileNotFoundError), self._translated():
            self._files.rm_file(self._path(path))

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Convert errors of a store's client, such as missing credentials, to OSErrors."""
        try:
            yield
        except OSError:
            raise
        except Exception as error:  # each store's client has different errors
            raise OSError(f"{self._url}: {type(error).__name__}: {error}") from error

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}"

    def _modified_s(self, name: str, entry: Mapping[str, Any]) -> float:
        for key in ("LastModified", "mtime", "last_modified", "updated", "created"):
            value = entry.get(key)
            if isinstance(value, datetime):
                return value.timestamp()
            if isinstance(value, int | float):
                return float(value)
        return float(self._files.modified(name).timestamp())
