import base64
import json
import os
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from spark_kafka_native._client.security.tokens import (
    extensions_of,
    token_from_aws,
    token_from_file,
    token_from_function,
    unsecured_token,
)
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.sasl.jaas import LoginModule, parse_login_module
from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.sasl.oauthbearer import BearerToken
from spark_kafka_native._net.secret import Secret

SIGNER = "aws_msk_iam_sasl_signer.MSKAuthTokenProvider"
MSK = HostPort("b-1.demo.a1b2c3.c2.kafka.eu-west-1.amazonaws.com", 9098)


def module(text: str, name: str = "OAuthBearerLoginModule") -> LoginModule:
    return parse_login_module(Secret(f"x.{name} required {text};"))


def claims_of(token: BearerToken) -> dict[str, Any]:
    part = token.value.reveal().split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return claims


# --- functions


@pytest.mark.feature("security.oauth")
def test_a_function_by_name_and_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    library: Any = types.ModuleType("my_tokens")
    library.Tokens = types.SimpleNamespace(fresh=lambda: ("abc", 99))
    monkeypatch.setitem(sys.modules, "my_tokens", library)
    token = token_from_function("my_tokens:Tokens.fresh", {"trace": "7"})
    assert (token.value.reveal(), token.expires_at, token.extensions) == ("abc", 99.0, {"trace": "7"})
    whole = BearerToken(value=Secret("x"), extensions={"own": "1"})
    assert token_from_function(lambda: whole, {}) is whole
    assert token_from_function(lambda: "abc", {}).expires_at is None


def raising() -> str:
    raise RuntimeError("hunter2")


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        ("no_such_module:f", "function no_such_module:f does not exist: No module"),
        ("os:no_such_function", "function os:no_such_function does not exist: "),
        ("os:sep", "is no function"),
        (raising, "raising failed with RuntimeError"),
        (lambda: None, "must return a token"),
        (lambda: ("hunter2", "soon"), "must return a token"),
        (lambda: (1, 2), "must return a token"),
    ],
)
def test_functions_that_give_none(function: str | Callable[..., Any], complaint: str) -> None:
    with pytest.raises(SaslError, match=complaint) as caught:
        token_from_function(function, {})
    assert caught.value.option == "sasl.login.callback.handler.class"
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


# --- files


def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("one\n")
    assert token_from_file(path.as_uri()).value.reveal() == "one"
    path.write_text("two")
    assert token_from_file(path.as_uri()).value.reveal() == "two"
    path.unlink()
    with pytest.raises(SaslError, match="a token cannot be read: No such file") as caught:
        token_from_file(path.as_uri())
    assert caught.value.local, "the error names no broker"


# --- unsecured tokens


def test_kafkas_own_default() -> None:
    token = unsecured_token(
        module(
            'unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_level="7"'
            ' unsecuredLoginLifetimeSeconds="60" unsecuredLoginListClaim_scope="|a|b" unsecuredLoginExtension_trace="9"'
        )
    )
    claims = claims_of(token)
    assert (claims["sub"], claims["level"], claims["scope"]) == ("alice", 7.0, ["a", "b"])
    assert claims["exp"] == token.expires_at
    assert 50 < claims["exp"] - time.time() <= 60
    assert token.extensions == {"trace": "9"}
    assert token.value.reveal().endswith(".")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "needs unsecuredLoginStringClaim_sub"),
        ('unsecuredLoginPrincipalClaimName="who" unsecuredLoginStringClaim_sub="x"', "StringClaim_who"),
        ('unsecuredLoginStringClaim_sub="x" unsecuredLoginLifetimeSeconds="long"', "not a number"),
        ('unsecuredLoginStringClaim_sub="x" unsecuredLoginNumberClaim_n="y"', "not a number"),
    ],
)
def test_claims_that_are_missing_or_wrong(text: str, complaint: str) -> None:
    with pytest.raises(SaslError, match=complaint):
        unsecured_token(module(text))


def test_extensions() -> None:
    assert extensions_of(None) == {}
    assert extensions_of(module('extension_a="1" clientId="x" extension_b="2"')) == {"a": "1", "b": "2"}


# --- AWS


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []

    def response(*given: Any, **more: Any) -> tuple[str, int]:
        calls.append((*given, *more.items()))
        return "signed", 5_000

    package: Any = types.ModuleType(SIGNER)
    package.generate_auth_token = lambda *given: response("default", *given)
    package.generate_auth_token_from_profile = lambda *given: response("profile", *given)
    package.generate_auth_token_from_role_arn = lambda *given, **more: response("role", *given, **more)
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", types.ModuleType("aws_msk_iam_sasl_signer"))
    monkeypatch.setitem(sys.modules, SIGNER, package)
    return calls


@pytest.mark.feature("security.msk")
@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("", ("default", "eu-west-1")),
        ('awsProfileName="dev"', ("profile", "eu-west-1", "dev")),
        ('awsRoleArn="arn:x"', ("role", "eu-west-1", "arn:x")),
        ('awsRoleArn="arn:x" awsRoleSessionName="s"', ("role", "eu-west-1", "arn:x", ("sts_session_name", "s"))),
    ],
)
def test_whose_credentials_aws_signs_with(signer: list[tuple[Any, ...]], text: str, asked: tuple[Any, ...]) -> None:
    token = token_from_aws(module(text, "IAMLoginModule"), MSK)
    assert (token.value.reveal(), token.expires_at) == ("signed", 5.0)
    assert signer == [asked]


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("boot-abc.c1.kafka-serverless.us-east-1.amazonaws.com", "us-east-1"),
        ("b-1.x.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("privatelink.example", "ap-south-1"),
    ],
)
def test_regions(signer: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, host: str, region: str) -> None:
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    token_from_aws(None, HostPort(host, 9098))
    assert signer == [("default", region)]


def test_no_region(signer: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    with pytest.raises(SaslError, match="AWS region"):
        token_from_aws(None, HostPort("privatelink.example", 9098))
    assert signer == []


def test_credentials_that_aws_does_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    package: Any = types.ModuleType(SIGNER)
    package.generate_auth_token = lambda *_: raising()
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", types.ModuleType("aws_msk_iam_sasl_signer"))
    monkeypatch.setitem(sys.modules, SIGNER, package)
    with pytest.raises(SaslError, match="AWS gives no token: RuntimeError") as caught:
        token_from_aws(None, MSK)
    assert not caught.value.retriable
    monkeypatch.setitem(sys.modules, SIGNER, None)
    with pytest.raises(SaslError, match=r"`pip install 'spark-kafka-native\[aws\]'`"):
        token_from_aws(None, MSK)


@pytest.mark.feature("security.msk")
def test_the_real_signer_makes_a_url_for_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a broker decodes: a presigned URL, as AWS's own documentation has it."""
    pytest.importorskip("aws_msk_iam_sasl_signer", reason="aws-msk-iam-sasl-signer-python is not installed")
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    token = token_from_aws(None, MSK)
    encoded = token.value.reveal()
    url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    assert url.startswith("https://kafka.eu-west-1.amazonaws.com/?Action=kafka-cluster%3AConnect")
    assert "X-Amz-Signature=" in url
    assert "EXAMPLE" in url
    assert "hunter2" not in url
    assert token.expires_at is not None
    assert 0 < token.expires_at - time.time() <= 901
