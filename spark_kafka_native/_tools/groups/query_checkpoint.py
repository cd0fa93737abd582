"""The offsets in the checkpoint of a streaming query, of this connector or of Spark's JVM connector.

A checkpoint has a file ``offsets/N`` for each batch that was planned, and ``commits/N`` for each that was completed. A
file of offsets begins with a line for its version and one for the query's settings. After them each source has a line
with its offset in JSON. With the setting enableSourceEvolution (version 2) its name and a colon precede it.
"""

import json
import re
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.fs

from spark_kafka_native._command_line.output import ToolFailed
from spark_kafka_native._spark.offsets import OffsetMap, parse_offsets

_NAMES_PRECEDE: Final = {"v1": False, "v2": True}
"""Whether names of sources precede their offsets, by the version of the file."""
_MAX_BYTES: Final = 1 << 26
_TRIES: Final = 3
"""How often the last batch is looked up: a running query deletes the files of earlier ones."""
_WITHOUT_PASSWORDS: Final = {"file", "hdfs", "viewfs"}
"""Schemes whose URLs have no password: a colon precedes a port, or is in a path."""
_MIN_SECRET_CHARS: Final = 6
"""Shorter parts of credentials are not looked for in Arrow's errors."""
_GCS_RETRY_S: Final = 10
"""Arrow's default is 15 minutes, in which nothing is printed."""
_URL: Final = re.compile("([A-Za-z][A-Za-z0-9+.-]*):/+(.*)", re.DOTALL)
"""Also with one slash, as Hadoop's paths: Arrow reports those that it cannot open."""


class Checkpoint:
    """A checkpoint by its location: a directory, or a URL of Arrow's file systems: file, s3, gs, abfs, hdfs.

    ``str()`` is the location without credentials.
    """

    def __init__(self, location: str) -> None:
        self._location = location
        self._user, self._query = _secrets_in(location)

    def __str__(self) -> str:
        shown = self._location
        if self._user:
            shown = shown.replace(f"{self._user}@", "...@", 1)
        return shown.replace(f"?{self._query}", "?...", 1) if self._query else shown

    def committed_offsets(self) -> OffsetMap:
        """The offsets after the last completed batch, of all Kafka sources of the query.

        Of a partition that several sources read it is the lowest. Raises ToolFailed: the checkpoint cannot be read, is
        not one, has no completed batch, or its query reads no topic.
        """
        try:
            files, path = self._open()
            batch, content = self._last_batch(files, path)
        except (OSError, ValueError, pa.ArrowException) as error:
            text, _, _ = self._masked(str(error)).partition("\n")  # without all the files where Arrow has looked
            if text.startswith("Unable to load lib"):
                text = f"{text}; HDFS needs Java and Hadoop: set JAVA_HOME, HADOOP_HOME and CLASSPATH"
            raise self._failure(re.sub(r"^\[Errno \d+\] ", "", text)) from error
        version, _, *sources = [*content.splitlines(), "", ""]
        if version not in _NAMES_PRECEDE:
            raise self._failure(f"the version of its offsets is {version[:20]!r}, not v1 or v2")
        offsets: OffsetMap = {}
        for line in sources:
            text = line.partition(":")[2] if _NAMES_PRECEDE[version] else line
            for partition, offset in self._offsets_in(text).items():
                offsets[partition] = min(offset, offsets.get(partition, offset))
        if not offsets:
            raise self._failure(f"batch {batch} has no offsets of a Kafka source")
        return offsets

    def _last_batch(self, files: pa.fs.FileSystem, path: str) -> tuple[int, str]:
        """The number and the file of offsets of the last completed batch. Raises OSError, ValueError, ToolFailed."""
        tries = _TRIES
        while True:
            try:
                listed = files.get_file_info(pa.fs.FileSelector(f"{path}/commits"))
            except FileNotFoundError as error:
                exists = files.get_file_info(path).type is not pa.fs.FileType.NotFound
                problem = "not the checkpoint of a streaming query: it has no directory commits"
                raise self._failure(problem if exists else "there is no such directory") from error
            batches = [int(info.base_name) for info in listed if info.base_name.isdecimal()]
            if not batches:
                raise self._failure("the query has no completed batch")
            tries -= 1
            try:
                with files.open_input_stream(f"{path}/offsets/{max(batches)}") as stream:
                    content = stream.read(_MAX_BYTES + 1)
            except FileNotFoundError as error:
                if not tries:
                    problem = f"the file offsets/{max(batches)} is missing, and commits/{max(batches)} is there"
                    raise self._failure(problem) from error
                continue
            if len(content) > _MAX_BYTES:
                raise self._failure(f"the file of batch {max(batches)} has more than {_MAX_BYTES} bytes")
            return max(batches), content.decode()

    def _open(self) -> tuple[pa.fs.FileSystem, str]:
        """The file system, and the path in it. Raises OSError, ValueError."""
        location = re.sub("^s3[an]://", "s3://", self._location)  # Hadoop's schemes
        location = re.sub("^file:/(?!/)", "file:///", location)
        if re.match("gc?s://", location) and "retry_limit_seconds=" not in location:
            location += f"{'&' if '?' in location else '?'}retry_limit_seconds={_GCS_RETRY_S}"
        if _URL.match(location):
            files, path = pa.fs.FileSystem.from_uri(location)
            return files, path
        return pa.fs.LocalFileSystem(), str(Path(location).absolute())

    def _offsets_in(self, text: str) -> OffsetMap:
        """Empty for another source, which has other text or, if it has not begun, a dash.

        Raises ToolFailed: the file is damaged.
        """
        try:
            found = json.loads(text)
        except (ValueError, RecursionError) as error:
            if text.startswith("{"):
                raise self._failure(f"a line of its offsets is damaged: {text[:80]!r}") from error
            return {}
        try:
            return parse_offsets(found)
        except ValueError:
            return {}

    def _failure(self, text: str) -> ToolFailed:
        return ToolFailed(f"--checkpoint {self}: {text}")

    def _masked(self, text: str) -> str:
        """A text of Arrow without credentials: it can have the location, or parts of it."""
        values = [item.rpartition("=")[2] for item in self._query.split("&")]
        parts = [part for part in (*re.split("[:/@?]", self._user), *values) if len(part) >= _MIN_SECRET_CHARS]
        masked = dict.fromkeys([*parts, *map(unquote, parts)], "...")
        masked |= {f"{self._user}@": "...@"} if self._user else {}
        masked |= {f"?{self._query}": "?..."} if self._query else {}
        for secret in sorted(masked, key=len, reverse=True):  # a part may be in another one
            text = text.replace(secret, masked[secret])
        return text


def _secrets_in(location: str) -> tuple[str, str]:
    """The user information and the query of a URL, where they can have credentials.

    A password may contain /, ? and @, although they should be percent-encoded. In a path, @ has no meaning.
    """
    url = _URL.match(location)
    if url is None:
        return "", ""
    scheme, rest = url.groups()
    user, _, host = rest.rpartition("@")
    if scheme in _WITHOUT_PASSWORDS:
        is_secret = "/" not in user
    elif scheme.startswith("abfs"):
        is_secret = ":" in user  # else it is a container
    else:
        is_secret = "/" not in user or ":" in user
    _, _, query = (host if user and is_secret else rest).partition("?")
    return user if is_secret else "", query
