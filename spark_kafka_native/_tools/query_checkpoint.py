"""The offsets in the checkpoint of a streaming query, of this connector or of Spark's JVM connector.

A checkpoint has a file ``offsets/N`` for each batch that was planned, and ``commits/N`` for each that was completed. A
file of offsets begins with a line for its version and one for the query's settings. After them each source has a line
with its offset in JSON. With the setting enableSourceEvolution (version 2) its name and a colon precede it.
"""

import json
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.fs

from spark_kafka_native._command_line.output import ToolFailure
from spark_kafka_native._spark.offsets import OffsetMap, parse_offsets

_NAMES_PRECEDE: Final = {"v1": False, "v2": True}
"""Whether names of sources precede their offsets, by the version of the file."""


def committed_offsets(location: str) -> OffsetMap:
    """The offsets after the last completed batch, of all Kafka sources of the query.

    ``location`` is a directory, or a URL of Arrow's file systems: file, s3, gs, abfs, hdfs. Raises ToolFailure: it
    cannot be read, is no checkpoint, has no completed batch, or its query reads no topic.
    """
    try:
        if "://" in location:
            files, path = pa.fs.FileSystem.from_uri(location)
        else:
            files, path = pa.fs.LocalFileSystem(), str(Path(location).absolute())
        listed = files.get_file_info(pa.fs.FileSelector(f"{path}/commits"))
        batches = [int(info.base_name) for info in listed if info.base_name.isdecimal()]
        if not batches:
            raise ToolFailure(f"--checkpoint {location}: the query has no completed batch")
        with files.open_input_stream(f"{path}/offsets/{max(batches)}") as stream:
            lines = stream.read().decode().splitlines()
    except FileNotFoundError as error:
        raise ToolFailure(f"--checkpoint {location}: not the checkpoint of a streaming query: {error}") from error
    except (OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        raise ToolFailure(f"--checkpoint {location}: {error}") from error
    version, _, *sources = [*lines, "", ""]
    if version not in _NAMES_PRECEDE:
        raise ToolFailure(f"--checkpoint {location}: the version of its offsets is {version!r}, not v1 or v2")
    offsets: OffsetMap = {}
    for line in sources:
        offsets |= _offsets_in(line.partition(":")[2] if _NAMES_PRECEDE[version] else line)
    if not offsets:
        raise ToolFailure(f"--checkpoint {location}: batch {max(batches)} has no offsets of a Kafka source")
    return offsets


def _offsets_in(line: str) -> OffsetMap:
    """Empty for the line of another source, which has other JSON or, if it has not begun, a dash."""
    try:
        return parse_offsets(json.loads(line))
    except ValueError:
        return {}
