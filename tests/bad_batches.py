"""Sends record batches that no stock client would, over a plain socket, and compares the answers with Apache Kafka's.

usage: bad_batches.py HOST:PORT [milepost|kafka]

Prints a line per case: what was sent, the error code that came back. Exits 1 when a code is not the expected one. Where
Milepost differs from Kafka on purpose the case says why.
"""

import sys
import time

from wire import GZIP, Client, batch, record

NOW = int(time.time() * 1000)
HOUR = 3_600_000
APPEND_TIME, TRANSACTIONAL, CONTROL = 8, 16, 32
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
