import re
from pathlib import Path

import pytest

from spark_kafka_native._command_line.properties import read_properties


def test_properties_files_are_read_as_java_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "# a comment\n! another\n\n"
        "node.id=7\n"
        "  listeners = PLAINTEXT://:9092 \n"
        "log.dirs:/data\n"
        "num.partitions 3\n"
        "a=one, \\\n   two, \\\n   three\n"
        "empty=\n"
        "no.separator\n"
        "node.id=8\n"
        "last=b\\"
    )
    assert read_properties(path) == {
        "node.id": "8",
        "listeners": "PLAINTEXT://:9092",
        "log.dirs": "/data",
        "num.partitions": "3",
        "a": "one, two, three",
        "empty": "",
        "no.separator": "",
        "last": "b",
    }


def test_escapes_in_properties_files_are_those_of_java(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text('jaas=password=\\"a\\\\b\\" \\u00e9\\:\\\n\tc\nkey\\ 1=x\n')
    assert read_properties(path) == {"jaas": 'password="a\\b" é:c', "key 1": "x"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"# c\n\na=1,\\\n  2\n\tssl.key.password = se\\u1cret\n", r"line 5: ssl.key.password: a \u escape needs four"),
        (b"a\\ b:secret\\\n\\u12\n", r"line 1: a\ b: a \u escape needs four"),
        (b"a=1\nb=secret\xff", "line 2: byte 0xff is not UTF-8"),
    ],
)
def test_an_error_of_a_properties_file_names_file_line_and_key_and_no_value(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="^" + re.escape(message)) as caught:
        read_properties(path)
    assert not re.search("se|cret", str(caught.value).replace("ssl", "").replace("needs", ""))


def test_a_line_of_a_properties_file_without_an_equals_sign_has_an_empty_value(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("client.id\n  sasl.mechanism  \nretries=1\n")
    assert read_properties(path) == {"client.id": "", "sasl.mechanism": "", "retries": "1"}
