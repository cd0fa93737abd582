"""XXH3 against values of its reference implementation, and the way that Java's values are put into it."""

import pytest
from xxhash import xxh3_64_intdigest as xxh3_64

from broker_embedded.groups.consumer.hash import XXH3

REFERENCE = [
    (0, 0x2D06800538D394C2),
    (1, 0xC44BDFF4074EECDB),
    (3, 0xC3489259E968AD9E),
    (4, 0xD3D60C1519014E89),
    (8, 0xB88DEE77F6BF6980),
    (9, 0x03688DCAD730D826),
    (16, 0x9DA23836ADF2BE1E),
    (17, 0xF34C3C9CF5A112D1),
    (32, 0x99CB9AD0F1A11FBE),
    (33, 0xC077B45492D29CDE),
    (64, 0x6EFB76FF16F37561),
    (65, 0x2640848E9137156B),
    (96, 0x764D2D5DB92942DF),
    (97, 0x077ACB7E5F4FD940),
    (128, 0x65F3C2C00FA93185),
    (129, 0x28065C6EC25F5B25),
    (240, 0x4917A75C0EF8EED7),
    (241, 0x541B19226F0052E8),
    (512, 0xF6FE51471F2FA1EC),
    (1024, 0xDC5ACF0B043C445B),
    (1025, 0xE1D9CD946277AE26),
    (2049, 0xC757A52BB931999D),
]
"""Of the bytes 0, 7, 14... (modulo 256), that many: every length at which the algorithm changes."""


@pytest.mark.parametrize(("size", "digest"), REFERENCE)
def test_digests_are_those_of_the_reference(size: int, digest: int) -> None:
    assert xxh3_64(bytes(number * 7 % 256 for number in range(size))) == digest


def test_values_are_hashed_in_little_endian_order() -> None:
    state = XXH3().put_byte(1).put_int(-2).put_long(3).put_longs([4, -5]).put_string("aé😀")
    raw = (
        b"\x01\xfe\xff\xff\xff"
        + (3).to_bytes(8, "little")
        + (4).to_bytes(8, "little")
        + (-5).to_bytes(8, "little", signed=True)
        + "aé😀".encode("utf-16-le")
        + (4).to_bytes(4, "little")
    )
    assert state.signed_digest() % 2**64 == xxh3_64(raw)
    assert -(2**63) <= state.signed_digest() < 2**63
