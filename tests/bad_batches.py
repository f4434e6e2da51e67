"""Sends record batches that no stock client would, over a plain socket, and compares the answers with Apache Kafka's.

usage: bad_batches.py HOST:PORT [milepost|kafka]

Prints a line per case: what was sent, the error code that came back. Exits 1 when a code is not the expected one. Where
Milepost differs from Kafka on purpose the case says why.
"""

import gzip
import socket
import struct
import sys
import time

NOW = int(time.time() * 1000)
HOUR = 3_600_000
APPEND_TIME, TRANSACTIONAL, CONTROL, GZIP = 8, 16, 32, 1
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


def batch(records, attributes=0, count=None, last=None, base=NOW, top=NOW, producer=(-1, -1, -1), magic=2, crc=0, first=0):
    count = len(records) if count is None else count
    payload = b"".join(records)
    if attributes & 7 == GZIP:
        payload = gzip.compress(payload)
    covered = struct.pack(">hiqqqhii", attributes, count - 1 if last is None else last, base, top, *producer, count)
    covered += payload
    body = struct.pack(">ibI", -1, magic, crc32c(covered) ^ crc) + covered
    return struct.pack(">qi", first, len(body)) + body


class Client:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def call(self, key, version, body):
        head = struct.pack(">hhih", key, version, 7, 3) + b"bad"
        self.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
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
        name = topic.encode()
        body = struct.pack(">hhiih", -1, -1, 30_000, 1, len(name)) + name + struct.pack(">iii", 1, 0, len(records))
        answer = self.call(0, 8, body + records)
        return struct.unpack(">h", answer[4 + 2 + len(name) + 4 + 4 : 4 + 2 + len(name) + 4 + 4 + 2])[0]


TWO = [record(0), record(1)]
UNKNOWN, CORRUPT, INVALID_TIMESTAMP, UNSUPPORTED_CODEC, INVALID_RECORD = -1, 2, 32, 76, 87
NOT_DECODED = "no record is decoded on the write path"
# What is sent: name, topic, bytes, Kafka's code, and Milepost's where it differs, with the reason.
CASES = [
    ("two records", "plain", batch(TWO), 0),
    ("two records, gzip", "plain", batch(TWO, GZIP), 0),
    ("wrong CRC", "plain", batch(TWO, crc=1), CORRUPT),
    ("append-time bit", "plain", batch(TWO, APPEND_TIME), 0),
    ("append-time bit, topic with append time", "stamped", batch(TWO, APPEND_TIME), INVALID_TIMESTAMP),
    ("append-time bit, gzip", "plain", batch(TWO, APPEND_TIME | GZIP), 0),
    ("control bit", "plain", batch(TWO, CONTROL), INVALID_RECORD),
    ("transactional bit without producer", "plain", batch(TWO, TRANSACTIONAL), 53, INVALID_RECORD, "transactions are not served"),
    ("magic 1", "plain", batch(TWO, magic=1), INVALID_RECORD),
    ("magic 3", "plain", batch(TWO, magic=3), CORRUPT),
    ("codec 5", "plain", batch(TWO, 5), UNKNOWN, UNSUPPORTED_CODEC, "Kafka fails inside"),
    ("count one too many", "plain", batch(TWO, count=3), INVALID_RECORD),
    ("count one too few", "plain", batch(TWO, count=1), INVALID_RECORD),
    ("count one too many, gzip", "plain", batch(TWO, GZIP, count=3), INVALID_RECORD, 0, NOT_DECODED),
    ("count one too few, gzip", "plain", batch(TWO, GZIP, count=1), INVALID_RECORD, 0, NOT_DECODED),
    ("count 0", "plain", batch([]), INVALID_RECORD),
    ("count negative", "plain", batch(TWO, count=-5), INVALID_RECORD),
    ("count and last offset delta disagree", "plain", batch(TWO, last=5), INVALID_RECORD),
    ("offset deltas with a hole", "plain", batch([record(0), record(2)]), 0),
    ("offset deltas with a hole, gzip", "plain", batch([record(0), record(2)], GZIP), UNKNOWN, 0, NOT_DECODED),
    ("a record longer than the batch", "plain", batch([record(0), record(1, length=999)]), INVALID_RECORD),
    ("bytes behind the last record", "plain", batch(TWO + [b"\0\0\0"], count=2), INVALID_RECORD),
    ("gzip that is none", "plain", batch(TWO, GZIP)[:-9] + b"123456789", CORRUPT),
    ("base offset 77", "plain", batch(TWO, first=77), INVALID_RECORD),
    ("two batches", "plain", batch(TWO) + batch(TWO), INVALID_RECORD, 0, "each is checked by itself"),
    ("cut batch", "plain", batch(TWO)[:-1], INVALID_RECORD),
    ("bytes that are no batch", "plain", b"\xff" * 100, CORRUPT),
    ("nothing", "plain", b"", INVALID_RECORD),
    ("two hours ahead", "plain", batch(TWO, base=NOW + 2 * HOUR, top=NOW + 2 * HOUR), INVALID_TIMESTAMP),
    ("ten years old", "plain", batch(TWO, base=NOW - 87_600 * HOUR, top=NOW - 87_600 * HOUR), 0),
    ("maximum timestamp unset", "plain", batch(TWO, top=-1), 0),
    ("maximum timestamp wrong", "plain", batch(TWO, top=NOW + HOUR // 2), 0),
    ("no key, compacted topic", "compacted", batch([record(0, key=None)]), INVALID_RECORD),
    ("producer without epoch", "plain", batch(TWO, producer=(5, -1, 0)), 0, INVALID_RECORD, "nothing could fence it"),
    ("producer without sequence", "plain", batch(TWO, producer=(5, 0, -1)), INVALID_RECORD),
]


def main(address, target="milepost"):
    client = Client(address)
    suffix = f"-{NOW}"
    topics = {"plain": [], "stamped": [("message.timestamp.type", "LogAppendTime")], "compacted": [("cleanup.policy", "compact")]}
    for topic, configs in topics.items():
        code = client.create(topic + suffix, configs)
        if code:
            sys.exit(f"creating {topic}: {code}")
    wrong = 0
    for name, topic, records, kafka, *own in CASES:
        expected = own[0] if own and target == "milepost" else kafka
        for _ in range(50):
            try:
                code = client.produce(topic + suffix, records)
            except ConnectionError:
                code, client = "closed", Client(address)
            # The topic is not known everywhere at once.
            if code != 3:
                break
            time.sleep(0.1)
        why = own[1] if len(own) > 1 else ""
        verdict = "" if code == expected else f"   EXPECTED {expected}"
        wrong += code != expected
        print(f"{code:>6}  {name}{verdict}{'   (Kafka: %s; %s)' % (kafka, why) if why else ''}")
    sys.exit(f"{wrong} answers are not as expected" if wrong else 0)


main(*sys.argv[1:])
