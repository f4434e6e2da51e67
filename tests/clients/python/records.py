"""Records that prove themselves, the same for every client."""

import zlib
from typing import NamedTuple


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list
    timestamp: int
    offset: int | None = None


FIRST_TIME = 1_600_000_000_000


def value(writer, sequence, size=1024):
    """The record's name, a CRC-32 of the rest, and bytes that follow from the name."""
    name = b"%s/%08d " % (writer.encode(), sequence)
    body = (name * (size // len(name) + 1))[:size]
    return b"%08x " % zlib.crc32(body) + body


def sequence_of(data):
    """The sequence number in a value; raises when the value was changed."""
    crc, body = data[:8], data[9:]
    assert int(crc, 16) == zlib.crc32(body), f"the payload checksum of {body[:40]} is wrong"
    return int(body.split(b" ", 1)[0].rsplit(b"/", 1)[1])


def stamped(writer, count):
    """Records whose times lie 10 ms apart."""
    return [
        Record(
            key=b"%s-%d" % (writer.encode(), sequence),
            value=value(writer, sequence),
            headers=[("sequence", b"%d" % sequence), ("writer", writer.encode())],
            timestamp=FIRST_TIME + 10 * sequence,
        )
        for sequence in range(count)
    ]
