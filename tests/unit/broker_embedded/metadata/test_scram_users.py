import asyncio
import hashlib
import os
import stat
from pathlib import Path

import pytest

from broker_embedded.metadata.files.credentials import CREDENTIALS
from broker_embedded.metadata.files.metadata_file import MetadataFileError
from broker_embedded.metadata.scram_users import ScramUsers, add_users
from broker_embedded.platform.platform import FileSystem, RealFileSystem, write_file
from broker_embedded.security.credentials import ScramCredential, ScramUser
from broker_embedded.security.first_users import parse_first_users
from spark_kafka_native.net.secret import Secret
from spark_kafka_native.protocol.errors import ErrorCode, KafkaError
from spark_kafka_native.protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.broker.disk import DATA_DIR, FaultyFileSystem, SimulatedCrash, new_disk
from tests.support.broker.metadata import open_store
from tests.support.refusals import refused

ALICE, BOB = ScramUser("alice", "SCRAM-SHA-256"), ScramUser("bob", "SCRAM-SHA-256")


def opened(files: FileSystem, first: str = "", directory: str = DATA_DIR) -> ScramUsers:
    return ScramUsers(open_store(files, directory), parse_first_users(Secret(first)))


def credential(password: str) -> ScramCredential:
    return ScramCredential.of_password("SCRAM-SHA-256", Secret(password), salt=b"salt")


def set_password(users: ScramUsers, name: str, password: str) -> KafkaError | None:
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 4096)
    wanted = ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=salted)
    return asyncio.run(users.alter((), (wanted,)))[name]


def delete(users: ScramUsers, name: str) -> KafkaError | None:
    return asyncio.run(users.alter((ScramCredentialDeletion(name=name, mechanism=1),), ()))[name]


def test_a_change_holds_at_once_and_after_a_restart() -> None:
    files = new_disk()
    users = opened(files)
    assert users.credential(ALICE) is None
    assert set_password(users, "alice", "one") is None
    assert set_password(users, "bob", "two") is None
    assert delete(users, "bob") is None
    files.crash()
    for known in (users, opened(files)):
        assert known.credential(ALICE) == credential("one")
        assert known.credential(BOB) is None
        assert known.describe(None) == {"alice": {"SCRAM-SHA-256": 4096}}


def test_a_refused_deletion_writes_no_file() -> None:
    files = FaultyFileSystem(new_disk())
    error = delete(opened(files), "alice")
    assert error is not None
    assert error.code is ErrorCode.RESOURCE_NOT_FOUND
    assert not files.exists(f"{DATA_DIR}/{CREDENTIALS.name}")


def test_first_users_are_made_once() -> None:
    files = new_disk()
    first = "SCRAM-SHA-256=[name=alice,password=one,salt=c2FsdA==]"
    users = opened(files, first)
    files.crash()
    assert users.credential(ALICE) == credential("one")
    set_password(users, "alice", "changed")
    again = opened(files, f"{first} SCRAM-SHA-256=[name=bob,password=two,salt=c2FsdA==]")
    assert again.credential(ALICE) == credential("changed")
    assert again.credential(BOB) == credential("two")


def test_a_crash_at_any_step_leaves_the_old_or_the_new() -> None:
    steps = FaultyFileSystem(new_disk())
    users = opened(steps)
    set_password(users, "alice", "old")
    before = len(steps.steps)
    set_password(users, "alice", "new")
    for step in range(len(steps.steps) - before):
        disk = new_disk()
        files = FaultyFileSystem(disk)
        users = opened(files)
        set_password(users, "alice", "old")
        files.crash_at = len(files.steps) + step
        with pytest.raises(SimulatedCrash):
            set_password(users, "alice", "new")
        disk.crash()
        assert opened(disk).credential(ALICE) in {credential("old"), credential("new")}


def test_a_disk_that_fails_changes_nothing() -> None:
    files = FaultyFileSystem(new_disk())
    users = opened(files)
    set_password(users, "alice", "old")
    files.fail("sync *")
    assert refused(set_password, users, "alice", "new").code is ErrorCode.KAFKA_STORAGE_ERROR
    assert users.credential(ALICE) == credential("old")


def test_a_damaged_file_is_named_and_not_overwritten() -> None:
    files = new_disk()
    write_file(files, f"{DATA_DIR}/{CREDENTIALS.name}", b"hunter2")
    with pytest.raises(MetadataFileError, match=f"{DATA_DIR}/{CREDENTIALS.name}") as caught:
        opened(files, "SCRAM-SHA-256=[name=alice,password=one]")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("umask", [0o022, 0o000])
def test_the_file_is_readable_by_its_owner_only(tmp_path: Path, umask: int) -> None:
    previous = os.umask(umask)
    try:
        users = opened(RealFileSystem(), "SCRAM-SHA-256=[name=alice,password=one]", str(tmp_path))
        path = tmp_path / CREDENTIALS.name
        for _ in range(2):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            set_password(users, "alice", "two")
    finally:
        os.umask(previous)


def test_a_start_takes_the_file_from_other_users(tmp_path: Path) -> None:
    path = tmp_path / CREDENTIALS.name
    opened(RealFileSystem(), "SCRAM-SHA-256=[name=alice,password=one]", str(tmp_path))
    path.chmod(0o644)
    assert opened(RealFileSystem(), directory=str(tmp_path)).names() == (ALICE,)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_users_are_added_to_a_directory_without_a_broker() -> None:
    files = new_disk()
    assert add_users(files, DATA_DIR, ()) == {}
    assert not files.exists(f"{DATA_DIR}/{CREDENTIALS.name}")
    made = add_users(files, DATA_DIR, parse_first_users(Secret("SCRAM-SHA-256=[name=alice,password=one]")))
    assert made.keys() == {ALICE}
    assert opened(files).credential(ALICE) == made[ALICE]
