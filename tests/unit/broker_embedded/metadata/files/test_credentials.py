"""The file of credentials: what comes back is what went in, and nothing that is damaged is guessed at."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_embedded.metadata.files.credentials import CREDENTIALS
from broker_embedded.metadata.files.metadata_file import MetadataFileError
from broker_embedded.security.credentials import ScramCredential, ScramUser

USERS = st.builds(ScramUser, st.text(min_size=1), st.sampled_from(("SCRAM-SHA-256", "SCRAM-SHA-512")))
ALL = st.builds(
    ScramCredential,
    salt=st.binary(),
    stored_key=st.binary(),
    server_key=st.binary(),
    iterations=st.integers(min_value=4096, max_value=16384),
)
ONE = {
    ScramUser("alice", "SCRAM-SHA-256"): ScramCredential(salt=b"s", stored_key=b"t", server_key=b"u", iterations=4096)
}


@given(st.dictionaries(USERS, ALL, max_size=4))
def test_there_and_back(credentials: dict[ScramUser, ScramCredential]) -> None:
    raw = CREDENTIALS.encode(credentials)
    assert CREDENTIALS.decode(raw) == credentials
    assert CREDENTIALS.encode(CREDENTIALS.decode(raw)) == raw


def test_a_credential_is_a_line() -> None:
    assert CREDENTIALS.encode(ONE).decode().splitlines()[2] == (
        ' {"user": "alice", "mechanism": "SCRAM-SHA-256", "iterations": 4096, "salt": "cw==", "stored_key": "dA==", '
        '"server_key": "dQ=="}]}'
    )


def test_every_cut_is_noticed() -> None:
    raw = CREDENTIALS.encode(ONE).rstrip()
    for length in range(len(raw)):
        with pytest.raises(MetadataFileError):
            CREDENTIALS.decode(raw[:length])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version 2; this broker reads version 1"),
        ({"more": 1}, "unknown keys more"),
        ({"credentials": [{"user": "alice"}]}, "KeyError"),
        ({"credentials": 7}, "TypeError"),
    ],
)
def test_files_of_others(change: dict[str, object], words: str) -> None:
    with pytest.raises(MetadataFileError, match=words):
        CREDENTIALS.decode(json.dumps({"version": 1, "credentials": [], **change}).encode())


@pytest.mark.parametrize("change", [{"salt": "hunter2"}, {"colour": "hunter2"}, {"iterations": "hunter2"}, {"salt": 7}])
def test_damage_is_not_repeated(change: dict[str, object]) -> None:
    document = json.loads(CREDENTIALS.encode(ONE))
    document["credentials"][0].update(change)
    with pytest.raises(MetadataFileError) as caught:
        CREDENTIALS.decode(json.dumps(document).encode())
    assert "hunter2" not in str(caught.value)


def test_a_number_beyond_all_numbers_is_damage() -> None:
    raw = CREDENTIALS.encode(ONE).replace(b"4096", b"1e999")
    with pytest.raises(MetadataFileError, match="OverflowError"):
        CREDENTIALS.decode(raw)
