"""DescribeUserScramCredentials: what the users' credentials are like."""

from pathlib import Path

import pytest

from spark_kafka_native.protocol.errors import ErrorCode
from spark_kafka_native.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)
from tests.support.broker_driver import BrokerDriver

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
def test_all_users(tmp_path: Path, everybody: bool) -> None:
    answer = asked(tmp_path, everybody=everybody)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    assert {result.user: result.credential_infos for result in answer.results} == {"alice": ALICE, "bob": BOB}
    assert {(result.error_code, result.error_message) for result in answer.results} == {(ErrorCode.NONE, None)}


def test_some_users(tmp_path: Path) -> None:
    answer = asked(tmp_path, "bob", "carol", "alice", "alice")
    assert [(result.user, result.error_code, result.credential_infos) for result in answer.results] == [
        ("bob", ErrorCode.NONE, BOB),
        ("carol", ErrorCode.RESOURCE_NOT_FOUND, ()),
        ("alice", ErrorCode.DUPLICATE_RESOURCE, ()),
    ]
