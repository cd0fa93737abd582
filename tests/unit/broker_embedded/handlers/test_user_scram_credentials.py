import errno
from pathlib import Path

import pytest

from broker_embedded._metadata.files.credentials import CREDENTIALS
from spark_kafka_native._protocol.errors import ErrorCode
from spark_kafka_native._protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from spark_kafka_native._protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.support.broker.disk import FaultyFileSystem, MemoryFileSystem
from tests.support.broker.driver import BrokerDriver

USERS = (
    "SCRAM-SHA-512=[name=alice,password=one,iterations=8192] SCRAM-SHA-256=[name=alice,password=one] "
    "SCRAM-SHA-256=[name=bob,password=two]"
)
ALICE = (CredentialInfo(mechanism=1, iterations=4096), CredentialInfo(mechanism=2, iterations=8192))
BOB = (CredentialInfo(mechanism=1, iterations=4096),)


def asked(tmp_path: Path, *names: str, everybody: bool = False) -> DescribeUserScramCredentialsResponse:
    with BrokerDriver(tmp_path, {"add.scram": USERS}) as broker:
        wanted = None if everybody else tuple(UserName(name=name) for name in names)
        return broker.ask(DescribeUserScramCredentialsRequest(users=wanted), 0)


@pytest.mark.parametrize("everybody", [True, False])
def test_scram_credentials_of_all_users(tmp_path: Path, everybody: bool) -> None:
    response = asked(tmp_path, everybody=everybody)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert {result.user: result.credential_infos for result in response.results} == {"alice": ALICE, "bob": BOB}
    assert {(result.error_code, result.error_message) for result in response.results} == {(ErrorCode.NONE, None)}


def test_scram_credentials_of_the_requested_users(tmp_path: Path) -> None:
    response = asked(tmp_path, "bob", "carol", "alice", "alice")
    assert [(result.user, result.error_code, result.credential_infos) for result in response.results] == [
        ("bob", ErrorCode.NONE, BOB),
        ("carol", ErrorCode.RESOURCE_NOT_FOUND, ()),
        ("alice", ErrorCode.DUPLICATE_RESOURCE, ()),
    ]


def request(*names: str, delete: str | None = None) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=() if delete is None else (ScramCredentialDeletion(name=delete, mechanism=1),),
        upsertions=tuple(
            ScramCredentialUpsertion(name=name, mechanism=1, iterations=4096, salt=b"salt", salted_password=b"hunter2")
            for name in names
        ),
    )


def test_each_user_is_answered(broker: BrokerDriver) -> None:
    response = broker.ask(request("alice", "", delete="bob"), 0)
    assert {result.user: result.error_code for result in response.results} == {
        "alice": ErrorCode.NONE,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
    }
    assert {result.user: result.error_message is None for result in response.results}["alice"]
    broker.restart()
    assert broker.broker.scram_users.describe(None) == {"alice": {"SCRAM-SHA-256": 4096}}
    assert "hunter2" not in (broker.data_dir / CREDENTIALS.name).read_text()


def test_an_empty_request_has_no_results(broker: BrokerDriver) -> None:
    assert broker.ask(request(), 0).results == ()


def test_a_disk_that_fails(tmp_path: Path) -> None:
    disk = MemoryFileSystem()
    files = FaultyFileSystem(disk)
    disk.make_directory("/data")
    with BrokerDriver(Path("/data"), file_system=files) as broker:
        files.fail(f"create {CREDENTIALS.name}*", errno.ENOSPC)
        response = broker.ask(request("alice", delete="bob"), 0)
        assert {result.user for result in response.results} == {"alice", "bob"}
        codes = {result.user: result.error_code for result in response.results}
        assert codes["alice"] == ErrorCode.KAFKA_STORAGE_ERROR
        assert broker.broker.scram_users.describe(None) == {}
        files.heal()
