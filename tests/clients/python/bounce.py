"""Writes and reads through librdkafka until it is told to stop (tests/bounce.sh), saying five times a second how far it is.

usage: bounce.py BOOTSTRAP TOPIC ZONE RECORDS_PER_SECOND
"""

import signal
import sys
import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 3
PATIENCE_SECONDS = 60


def main(bootstrap, topic, zone, per_second):
    common = {"bootstrap.servers": bootstrap, "client.id": f"librdkafka,zone={zone}", "client.rack": zone}
    counts = {"acked": 0, "read": 0, "failed": 0}
    stopping, draining = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    admin = AdminClient(common)
    admin.create_topics([NewTopic(topic, PARTITIONS, 3)])[topic].result()

    def failed(error):
        counts["failed"] += 1

    def read():
        consumer = Consumer(
            common
            # The group is never joined: partitions are assigned by hand and nothing is committed.
            | {"group.id": "bounce", "enable.auto.commit": False, "auto.offset.reset": "error", "error_cb": failed}
        )
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        while not draining.is_set():
            for message in consumer.consume(500, 0.2):
                counts["failed" if message.error() else "read"] += 1
        consumer.close()

    def tell():
        print(int(time.time() * 1000), counts["acked"], counts["read"], counts["failed"], flush=True)

    def keep_telling():
        while not draining.wait(0.2):
            tell()

    threads = [threading.Thread(target=work) for work in (read, keep_telling)]
    for thread in threads:
        thread.start()
    producer = Producer(common | {"enable.idempotence": True, "linger.ms": 5, "error_cb": failed})

    def delivered(error, _):
        counts["failed" if error else "acked"] += 1

    sequence, started = 0, time.monotonic()
    while not stopping.is_set():
        while sequence < (time.monotonic() - started) * per_second:
            try:
                producer.produce(topic, f"{sequence} {0:0100d}", partition=sequence % PARTITIONS, callback=delivered)
            except BufferError:
                break
            sequence += 1
        producer.poll(0.02)
    producer.flush(PATIENCE_SECONDS)
    patience = time.monotonic() + PATIENCE_SECONDS
    while counts["read"] < counts["acked"] and time.monotonic() < patience:
        time.sleep(0.05)
    draining.set()
    for thread in threads:
        thread.join()
    tell()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
