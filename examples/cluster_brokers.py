"""Asks one broker for the cluster's brokers (Kafka's Metadata request, version 1).

usage: cluster_brokers.py HOST:PORT [CLIENT_ID [TOPIC]]

Prints "broker ID HOST:PORT RACK" for each broker, and with a topic "partition P LEADER_ID" for each
of its partitions. Exits 1 with the reason when there is no answer within two seconds.
"""

import socket
import struct
import sys

METADATA, VERSION, TIMEOUT_SECONDS = 3, 1, 2


def string(text):
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def ask(address, client_id, topics):
    host, port = address.rsplit(":", 1)
    body = struct.pack(">hhi", METADATA, VERSION, 1) + string(client_id)
    body += struct.pack(">i", len(topics)) + b"".join(map(string, topics))
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as broker:
        broker.sendall(struct.pack(">i", len(body)) + body)
        answer = broker.makefile("rb")
        (length,) = struct.unpack(">i", answer.read(4))
        return Reader(answer.read(length))


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 4  # after the correlation id

    def take(self, form):
        (value,) = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return value

    def string(self):
        length = self.take(">h")
        start, self.at = self.at, self.at + max(length, 0)
        return self.data[start : self.at].decode()

    def array(self, item):
        return [item() for _ in range(self.take(">i"))]


def main(address, client_id="cluster-brokers", *topics):
    answer = ask(address, client_id, topics)

    def broker():
        node, host, port = answer.take(">i"), answer.string(), answer.take(">i")
        print("broker", node, f"{host}:{port}", answer.string() or "-")

    def partition():
        answer.take(">h")
        index, leader = answer.take(">i"), answer.take(">i")
        replicas, in_sync = (answer.array(lambda: answer.take(">i")) for _ in range(2))
        print("partition", index, leader)

    def topic():
        answer.take(">h"), answer.string(), answer.take(">b")
        answer.array(partition)

    answer.array(broker)
    answer.take(">i")  # the controller
    answer.array(topic)


try:
    main(*sys.argv[1:])
except (OSError, struct.error, ValueError) as error:
    sys.exit(f"{sys.argv[1]}: {error}")
