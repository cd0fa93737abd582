"""The columns of a load, from the options or from the target. All files of a target have the same columns."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql.types import StringType, StructField, StructType

from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.formats import COMPRESSIONS
from spark_kafka_native._jobs.batch_reload.manifest import NO_FORMAT, Manifest, StoredFormat
from spark_kafka_native._spark.source.schema import source_schema

_DEFAULT_FORMAT: Final = "parquet"


def stored_format(
    base: Manifest | None, *, name: str | None, columns: Sequence[str], as_string: frozenset[str]
) -> StoredFormat:
    """The format and columns of a load. Raises UsageError: no such columns, or others than the target has."""
    known = None if base is None or base.format == NO_FORMAT else base.format
    chosen = bool(columns or as_string)
    if known is not None and name in {None, known.name} and not chosen:
        return known
    wanted_name = name or (known.name if known else _DEFAULT_FORMAT)
    fields = row_schema(wanted_name, columns, as_string).fields
    stored = fields if wanted_name in COMPRESSIONS else []
    kinds = tuple((field.name, field.dataType.simpleString()) for field in stored)
    wanted = StoredFormat(name=wanted_name, columns=kinds)
    if known is not None and wanted.name != known.name:
        raise UsageError(
            f"--format {wanted.name}: the target has {known.name}. All of its files have the same format, so omit this "
            "option, or load into another target"
        )
    if known is not None and wanted != known:
        raise UsageError(
            f"--columns: the target has {_describe(known)}, not {_describe(wanted)}. All of its files have the same "
            "columns, so omit --columns, --key-as-string and --value-as-string, or load into another target"
        )
    return wanted


def row_schema(name: str, columns: Sequence[str], as_string: frozenset[str]) -> StructType:
    """The columns of the rows that are written, from the options. Raises UsageError."""
    all_fields = {field.name.lower(): field for field in source_schema(include_headers=True).fields}
    if name == "text":
        if [column.lower() for column in columns] not in ([], ["value"]):
            raise UsageError("--columns: a text file has the one column value")
        columns, as_string = tuple(columns) or ("value",), as_string | {"value"}
    chosen: list[StructField] = []
    for column in columns or [field.name for field in all_fields.values()]:
        field = all_fields.get(column.lower())
        if field is None:
            names = ", ".join(field.name for field in all_fields.values())
            raise UsageError(f"--columns: {column!r} is not a column of the source; its columns are {names}")
        kind = StringType() if field.name in as_string else field.dataType
        chosen.append(StructField(field.name, kind, nullable=True))
    names_chosen = [field.name for field in chosen]
    if twice := [name for name in names_chosen if names_chosen.count(name) > 1]:
        raise UsageError(f"--columns: names column {twice[0]} twice")
    if missing := as_string - set(names_chosen):
        raise UsageError(f"--{min(missing)}-as-string: column {min(missing)} is not loaded")
    return StructType(chosen)


def schema_of(form: StoredFormat) -> StructType:
    """The Spark schema of a target."""
    own = {field.name: field.dataType for field in source_schema(include_headers=True).fields}
    return StructType(
        [
            StructField(name, own[name] if kind == own[name].simpleString() else StringType(), nullable=True)
            for name, kind in form.columns
        ]
    )


def _describe(form: StoredFormat) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in form.columns)
