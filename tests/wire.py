"""Kafka's wire as far as the tests need it that speak over plain sockets: record batches and a few requests."""

import gzip
import socket
import struct
import time

GZIP = 1
POLY = 0x82F63B78
TABLE = []
for n in range(256):
    for _ in range(8):
        n = (n >> 1) ^ (POLY if n & 1 else 0)
    TABLE.append(n)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def varint(n):
    n, out = (n << 1) ^ (n >> 63), b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def record(delta, value=b"value", key=b"key", time_delta=0, length=None):
    key = varint(-1) if key is None else varint(len(key)) + key
    body = b"\0" + varint(time_delta) + varint(delta) + key + varint(len(value)) + value + varint(0)
    return varint(len(body) if length is None else length) + body


def batch(records, attributes=0, count=None, last=None, base=None, top=None, producer=(-1, -1, -1), magic=2, crc=0, first=0):
    now = int(time.time() * 1000)
    base, top = now if base is None else base, now if top is None else top
    count = len(records) if count is None else count
    payload = b"".join(records)
    if attributes & 7 == GZIP:
        payload = gzip.compress(payload)
    covered = struct.pack(">hiqqqhii", attributes, count - 1 if last is None else last, base, top, *producer, count)
    covered += payload
    body = struct.pack(">ibI", -1, magic, crc32c(covered) ^ crc) + covered
    return struct.pack(">qi", first, len(body)) + body


def frame(key, version, body):
    """A request as it goes over the wire."""
    head = struct.pack(">hhih", key, version, 7, 3) + b"bad"
    return struct.pack(">i", len(head) + len(body)) + head + body


def produce_body(topic, records):
    """Produce 8 to partition 0 of a topic, acks=all."""
    name = topic.encode()
    return struct.pack(">hhiih", -1, -1, 30_000, 1, len(name)) + name + struct.pack(">iii", 1, 0, len(records)) + records


def fetch_body(topic, offset, bytes_max, wait_ms):
    """Fetch 4 of partition 0 of a topic."""
    name = topic.encode()
    head = struct.pack(">iiiibi", -1, wait_ms, 1, bytes_max, 0, 1) + struct.pack(">h", len(name)) + name
    return head + struct.pack(">iiqi", 1, 0, offset, bytes_max)


class Client:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def call(self, key, version, body):
        self.socket.sendall(frame(key, version, body))
        length = struct.unpack(">i", self.read(4))[0]
        return self.read(length)[4:]

    def read(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("closed")
            data += piece
        return data

    def create(self, topic, configs):
        name = topic.encode()
        body = struct.pack(">ih", 1, len(name)) + name + struct.pack(">ihii", 1, 1, 0, len(configs))
        for key, value in configs:
            body += struct.pack(">h", len(key)) + key.encode() + struct.pack(">h", len(value)) + value.encode()
        answer = self.call(19, 2, body + struct.pack(">i?", 30_000, False))
        return struct.unpack(">h", answer[10 + len(name) : 12 + len(name)])[0]

    def produce(self, topic, records):
        """The error code for partition 0."""
        name = topic.encode()
        answer = self.call(0, 8, produce_body(topic, records))
        return struct.unpack(">h", answer[4 + 2 + len(name) + 4 + 4 : 4 + 2 + len(name) + 4 + 4 + 2])[0]
