import pytest

from spark_kafka_native._jobs.batch_reload.columns import row_schema, schema_of, stored_format
from spark_kafka_native._jobs.batch_reload.errors import UsageError
from spark_kafka_native._jobs.batch_reload.manifest import NO_FORMAT, Manifest, StoredFormat

NOTHING: frozenset[str] = frozenset()
ALL = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]


def target(form: StoredFormat) -> Manifest:
    return Manifest(version=1, load_id="", kind="load", created_ms=0, format=form)


def test_default_columns_and_format() -> None:
    form = stored_format(None, name=None, columns=(), as_string=NOTHING)
    assert form.name == "parquet"
    assert [name for name, _ in form.columns] == ALL
    assert dict(form.columns)["value"] == "binary"
    assert [field.name for field in schema_of(form).fields] == ALL
    text = stored_format(None, name="csv", columns=("Value", "offset"), as_string=frozenset({"value"}))
    assert text.columns == (("value", "string"), ("offset", "bigint"))
    assert schema_of(text).simpleString() == "struct<value:string,offset:bigint>"


def test_text_format_has_the_column_value_only() -> None:
    assert stored_format(None, name="text", columns=(), as_string=NOTHING).columns == (("value", "string"),)
    with pytest.raises(UsageError, match="a text file has the one column value"):
        row_schema("text", ["key"], NOTHING)


def test_target_keeps_its_format_and_columns() -> None:
    known = stored_format(None, name="orc", columns=("value",), as_string=NOTHING)
    assert stored_format(target(known), name=None, columns=(), as_string=NOTHING) == known
    assert stored_format(target(known), name="orc", columns=("value",), as_string=NOTHING) == known
    assert stored_format(target(NO_FORMAT), name=None, columns=(), as_string=NOTHING).name == "parquet"
    with pytest.raises(UsageError, match=r"^--format json: the target has orc\. All of its files have the same format"):
        stored_format(target(known), name="json", columns=(), as_string=NOTHING)
    with pytest.raises(UsageError, match=r"^--columns: the target has value binary, not value string\. "):
        stored_format(target(known), name=None, columns=("value",), as_string=frozenset({"value"}))


def test_other_formats_have_no_columns_to_keep() -> None:
    assert stored_format(None, name="jdbc", columns=("value",), as_string=NOTHING) == StoredFormat(
        name="jdbc", columns=()
    )


@pytest.mark.parametrize(
    ("columns", "as_string", "said"),
    [
        (["valeu"], NOTHING, "'valeu' is not a column of the source; its columns are key"),
        (["key", "value", "VALUE"], NOTHING, "--columns: names column value twice"),
        (["value"], frozenset({"key"}), "--key-as-string: column key is not loaded"),
    ],
)
def test_invalid_columns_are_refused(columns: list[str], as_string: frozenset[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        row_schema("parquet", columns, as_string)
