"""Tokens from an OAuth server, by the client credentials grant (RFC 6749, section 4.4; KIP-768)."""

import base64
import dataclasses
import http.client
import json
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any, Final

from spark_kafka_native._client.retry import Backoff
from spark_kafka_native._client.security.token_cache import expiry_of
from spark_kafka_native._net.sasl.mechanism import SaslError
from spark_kafka_native._net.sasl.oauthbearer import BearerToken
from spark_kafka_native._net.secret import Secret, without_secrets

OPTION: Final = "sasl.oauthbearer.token.endpoint.url"

_DEFAULT_TIMEOUT_MS: Final = 10_000
_MAX_BYTES: Final = 1 << 20
_WORTH_ANOTHER_TRY: Final = frozenset({408, 425, 429, 500, 502, 503, 504})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokenServer:
    """A token endpoint, and the client's credentials."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None = None
    urlencode: bool = False
    connect_timeout_ms: int | None = None
    read_timeout_ms: int | None = None
    backoff_ms: int = 100
    backoff_max_ms: int = 10_000
    tls: ssl.SSLContext | None = None
    """None: the system's authorities."""

    def fetch(self, *, sleep: Callable[[float], None] = time.sleep) -> BearerToken:
        """A new token; retries while the server cannot be reached. Raises SaslError."""
        backoff = Backoff(self.backoff_ms, self.backoff_max_ms)
        waited_ms = 0.0
        while True:
            try:
                return self._fetch_once()
            except SaslError as error:
                pause_ms = backoff.next_ms()
                if not error.retriable or waited_ms + pause_ms > self.backoff_max_ms:
                    raise
                sleep(pause_ms / 1000)
                waited_ms += pause_ms

    def _fetch_once(self) -> BearerToken:
        try:
            https = urllib.request.HTTPSHandler(context=self.tls or ssl.create_default_context())
            opener = urllib.request.build_opener(_NoRedirects, https)
            with opener.open(self._request(), timeout=self._timeout_s) as response:
                body = response.read(_MAX_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                detail = without_secrets(_error_of(error.read(_MAX_BYTES)), self.client_secret)
            worth = error.code in _WORTH_ANOTHER_TRY
            reason = f"{self._address} answers {error.code}{detail}"
            raise SaslError(reason, OPTION, retriable=worth, local=True) from None
        except (OSError, http.client.HTTPException) as error:
            cause = getattr(error, "reason", None) or error
            worth = not isinstance(cause, ssl.SSLCertVerificationError)
            reason = f"{self._address} cannot be reached: {cause}"
            raise SaslError(reason, OPTION, retriable=worth, local=True) from None
        return _token_in(body, self._address)

    def _request(self) -> urllib.request.Request:
        encode = urllib.parse.quote_plus if self.urlencode else str
        pair = f"{encode(self.client_id)}:{encode(self.client_secret.reveal())}"
        form = {"grant_type": "client_credentials"} | ({"scope": self.scope} if self.scope else {})
        return urllib.request.Request(  # noqa: S310 -- its scheme was checked with the configuration
            self.url,
            data=urllib.parse.urlencode(form).encode(),
            headers={
                "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
                "Accept": "application/json",
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )

    @property
    def _timeout_s(self) -> float:
        given = [each for each in (self.connect_timeout_ms, self.read_timeout_ms) if each]
        return max(given, default=_DEFAULT_TIMEOUT_MS) / 1000

    @property
    def _address(self) -> str:
        """The URL without user information and query, which may be secret."""
        parts = urllib.parse.urlsplit(self.url)
        return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """The client's secret must not be sent to another server."""

    def redirect_request(self, *_: object) -> None:
        return None


def _token_in(body: bytes, place: str) -> BearerToken:
    try:
        response: dict[str, Any] = json.loads(body)
        value = str(response.get("access_token") or response["id_token"])
    except (ValueError, KeyError, AttributeError):
        raise SaslError(f"{place} sends no access_token", OPTION, local=True) from None
    expires_at = expiry_of(value)
    if expires_at is None and str(response.get("expires_in", "")).isdigit():
        expires_at = time.time() + int(response["expires_in"])
    return BearerToken(value=Secret(value), expires_at=expires_at)


def _error_of(body: bytes) -> str:
    """An error's code and description as RFC 6749 has them."""
    try:
        response = json.loads(body)
        details = [str(response[key]) for key in ("error", "error_description") if response.get(key)]
    except (ValueError, AttributeError, TypeError):
        return ""
    return f" ({': '.join(details)[:300]})" if details else ""
