"""Where the tokens of OAUTHBEARER come from: a function, a file, a server, AWS, or Kafka's unsecured ones."""

import base64
import importlib
import json
import os
import re
import time
import urllib.parse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from spark_kafka_native._client.config_def import find_function
from spark_kafka_native._client.security.token_cache import expiry_of
from spark_kafka_native._client.security.token_server import OPTION as ENDPOINT
from spark_kafka_native._extras import install_hint
from spark_kafka_native._net.address import HostPort
from spark_kafka_native._net.sasl.jaas import LoginModule
from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.sasl.oauthbearer import BearerToken
from spark_kafka_native._net.secret import Secret

FUNCTION: Final = "sasl.login.callback.handler.class"

_EXTENSION: Final = "extension_"
_UNSECURED: Final = "unsecuredLogin"
_MSK_HOST: Final = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?$")


def token_from_function(function: str | Callable[..., Any], extensions: Mapping[str, str]) -> BearerToken:
    """What a user's function returns: a token, or a token and when it ends in seconds since 1970. Raises SaslError."""
    try:
        result = _function(function)()
    except SaslError:
        raise
    except Exception as error:  # a user's function may raise anything
        # Its text may hold anything, and so may a traceback's variables.
        raise SaslError(f"{_name(function)} failed with {type(error).__name__}", FUNCTION, local=True) from None
    if isinstance(result, BearerToken):
        return result
    value, expires_at = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    if not isinstance(value, str) or not isinstance(expires_at, int | float | None):
        reason = f"{_name(function)} must return a token, or a token and the time of its end"
        raise SaslError(reason, FUNCTION, local=True)
    ends = expiry_of(value) if expires_at is None else float(expires_at)
    return BearerToken(value=Secret(value), expires_at=ends, extensions=extensions)


def token_from_file(url: str) -> BearerToken:
    """The token in the file of a ``file://`` address, read each time. Raises SaslError."""
    path = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
    try:
        value = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = f"{path} cannot be read: {getattr(error, 'strerror', None) or error}"
        raise SaslError(reason, ENDPOINT, local=True) from None
    return BearerToken(value=Secret(value), expires_at=expiry_of(value))


def unsecured_token(module: LoginModule) -> BearerToken:
    """A token without a signature, of the claims in ``unsecuredLogin*`` options: what Kafka's own default makes.

    For tests: brokers take them only if they do not check tokens. Raises SaslError.
    """
    name = module.text(f"{_UNSECURED}PrincipalClaimName") or "sub"
    scope = module.text(f"{_UNSECURED}ScopeClaimName") or "scope"
    claims: dict[str, Any] = {}
    try:
        lifetime_s = float(module.text(f"{_UNSECURED}LifetimeSeconds") or 3600)
        for option, given in module.options.items():
            for kind, read in _CLAIMS.items():
                if option.startswith(f"{_UNSECURED}{kind}Claim_"):
                    claims[option.partition("_")[2]] = read(given.reveal())
    except ValueError:
        raise SaslError("an unsecuredLogin option is not a number", local=True) from None
    if name not in claims:
        reason = f"OAuthBearerLoginModule needs {_UNSECURED}StringClaim_{name}, or another source of tokens"
        raise SaslError(reason, local=True)
    now = time.time()
    claims = {"iat": now, "exp": now + lifetime_s, scope: claims.get(scope, [])} | claims
    if not claims[scope]:
        del claims[scope]
    value = f"{_base64({'alg': 'none'})}.{_base64(claims)}."
    found = {
        o.partition("_")[2]: v.reveal() for o, v in module.options.items() if o.startswith(f"{_UNSECURED}Extension_")
    }
    return BearerToken(value=Secret(value), expires_at=claims["exp"], extensions=found)


def extensions_of(module: LoginModule | None) -> dict[str, str]:
    """SASL extensions (KIP-342) among a login module's options: ``extension_name="value"``."""
    if module is None:
        return {}
    return {
        option.removeprefix(_EXTENSION): value.reveal()
        for option, value in module.options.items()
        if option.startswith(_EXTENSION)
    }


def token_from_aws(module: LoginModule | None, address: HostPort) -> BearerToken:
    """A token for AWS MSK, signed with the credentials that AWS finds here. Raises SaslError."""
    try:
        signer: Any = importlib.import_module("aws_msk_iam_sasl_signer.MSKAuthTokenProvider")
    except ImportError as error:
        needed = install_hint("aws-msk-iam-sasl-signer-python", "aws")
        raise SaslError(f"AWS_MSK_IAM needs {needed}", "sasl.mechanism", local=True) from error
    region = _region(address)
    role, profile = (module.text(name) if module else None for name in ("awsRoleArn", "awsProfileName"))
    session = module.text("awsRoleSessionName") if module else None
    try:
        if role:
            more = {"sts_session_name": session} if session else {}
            value, expires_ms = signer.generate_auth_token_from_role_arn(region, role, **more)
        elif profile:
            value, expires_ms = signer.generate_auth_token_from_profile(region, profile)
        else:
            value, expires_ms = signer.generate_auth_token(region)
    except Exception as error:  # errors of AWS's packages have no base in common
        name = type(error).__name__
        # AWS could not be reached, as opposed to having no credentials for this client.
        may_pass = isinstance(error, OSError) or "Connect" in name or "Timeout" in name
        raise SaslError(f"AWS gives no token: {name}", retriable=may_pass, local=True) from None
    return BearerToken(value=Secret(value), expires_at=expires_ms / 1000)


def _region(address: HostPort) -> str:
    found = _MSK_HOST.search(address.host)
    region = found[1] if found else os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise SaslError(f"{address.host} does not say its AWS region, and neither does AWS_REGION", "bootstrap.servers")
    return region


def _function(function: str | Callable[..., Any]) -> Callable[..., Any]:
    if not isinstance(function, str):
        return function
    try:
        return find_function(function)
    except LookupError as error:
        raise SaslError(f"function {function} does not exist: {error}", FUNCTION, local=True) from None
    except TypeError as error:
        raise SaslError(str(error), FUNCTION, local=True) from None


def _name(function: str | Callable[..., Any]) -> str:
    return function if isinstance(function, str) else getattr(function, "__qualname__", type(function).__name__)


def _listed(text: str) -> list[str]:
    """A list in the form of Kafka's options: its first character separates the items."""
    return text[1:].split(text[0]) if text else []


_CLAIMS: Final[Mapping[str, Callable[[str], Any]]] = {"String": str, "Number": float, "List": _listed}


def _base64(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
