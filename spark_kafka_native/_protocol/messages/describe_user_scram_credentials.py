"""DescribeUserScramCredentials (50): who may log in by SCRAM, with which mechanisms (KIP-554)."""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Int8, Int16, Int32, String


@struct
class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0


@struct
class DescribeUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: tuple[CredentialInfo, ...] = ()


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse(Response):
    """What the users' credentials are like, never the credentials."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: tuple[DescribeUserScramCredentialsResult, ...] = ()


@struct
class UserName(Struct):
    name: String = ""


@message(api_key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest(Request[DescribeUserScramCredentialsResponse]):
    """Ask about some users, or with None or an empty tuple about all."""

    users: tuple[UserName, ...] | None = ()
