"""AlterUserScramCredentials (51): let users log in by SCRAM, or no longer (KIP-554)."""

from spark_kafka_native._protocol.schema import Request, Response, Struct, message, struct
from spark_kafka_native._protocol.wire import Bytes, Int8, Int16, Int32, String


@struct
class AlterUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse(Response):
    """What became of it, by user."""

    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...] = ()


@struct
class ScramCredentialDeletion(Struct):
    name: String = ""
    mechanism: Int8 = 0


@struct
class ScramCredentialUpsertion(Struct):
    """One entry of ``upsertions``: the client has salted the password, which does not travel."""

    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


@message(api_key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest(Request[AlterUserScramCredentialsResponse]):
    """Credentials to delete and to make, each user once."""

    deletions: tuple[ScramCredentialDeletion, ...] = ()
    upsertions: tuple[ScramCredentialUpsertion, ...] = ()
