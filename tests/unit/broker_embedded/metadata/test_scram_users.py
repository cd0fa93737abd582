import asyncio
import hashlib

from broker_embedded._metadata.files.credentials import CREDENTIALS
from broker_embedded._metadata.scram_users import ScramUsers, add_users
from broker_embedded._platform.platform import FileSystem
from broker_embedded._security.credentials import ScramCredential, ScramUser
from broker_embedded._security.first_users import parse_first_users
from spark_kafka_native._net.secret import Secret
from spark_kafka_native._protocol.errors import ErrorCode, KafkaError
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import (
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from tests.support.broker.disk import DATA_DIR, FaultyFileSystem, new_disk
from tests.support.broker.metadata import open_store

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


def test_users_are_added_to_a_directory_without_a_broker() -> None:
    files = new_disk()
    assert add_users(files, DATA_DIR, ()) == {}
    assert not files.exists(f"{DATA_DIR}/{CREDENTIALS.name}")
    made = add_users(files, DATA_DIR, parse_first_users(Secret("SCRAM-SHA-256=[name=alice,password=one]")))
    assert made.keys() == {ALICE}
    assert opened(files).credential(ALICE) == made[ALICE]
