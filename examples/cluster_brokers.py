"""Asks one broker for the brokers of the cluster that are alive, and for a topic's leaders.

usage: cluster_brokers.py HOST:PORT [CLIENT_ID [TOPIC]]

Prints "broker ID HOST:PORT RACK" for each broker (DescribeCluster: Metadata goes on to name a broker for some seconds after
its end), and with a topic "partition P LEADER_ID" for each of its partitions (Metadata). Exits 1 with the reason when there
is no answer within two seconds.
"""

import socket
import struct
import sys

METADATA, DESCRIBE_CLUSTER, TIMEOUT_SECONDS = 3, 60, 2


def string(text):
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def ask(address, client_id, api, version, body):
    host, port = address.rsplit(":", 1)
    request = struct.pack(">hhi", api, version, 1) + string(client_id) + body
    with socket.create_connection((host, int(port)), TIMEOUT_SECONDS) as broker:
        broker.sendall(struct.pack(">i", len(request)) + request)
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

    def compact_string(self):
        """Lengths below 127 are one byte: one more than they are."""
        start, length = self.at + 1, max(self.take(">B") - 1, 0)
        self.at = start + length
        return self.data[start : self.at].decode()


def brokers(address, client_id):
    # No tagged fields in the header, no authorized operations, no tagged fields.
    answer = ask(address, client_id, DESCRIBE_CLUSTER, 0, b"\0\0\0")
    answer.take(">B"), answer.take(">i"), answer.take(">h"), answer.compact_string()
    answer.compact_string(), answer.take(">i")  # the cluster and its controller
    for _ in range(answer.take(">B") - 1):
        node, host, port = answer.take(">i"), answer.compact_string(), answer.take(">i")
        print("broker", node, f"{host}:{port}", answer.compact_string() or "-")
        answer.take(">B")


def partitions(address, client_id, topic):
    answer = ask(address, client_id, METADATA, 1, struct.pack(">i", 1) + string(topic))

    def partition():
        answer.take(">h")
        index, leader = answer.take(">i"), answer.take(">i")
        for _ in range(2):
            answer.array(lambda: answer.take(">i"))
        print("partition", index, leader)

    answer.array(lambda: (answer.take(">i"), answer.string(), answer.take(">i"), answer.string()))
    answer.take(">i")  # the controller
    answer.array(lambda: (answer.take(">h"), answer.string(), answer.take(">b"), answer.array(partition)))


def main(address, client_id="cluster-brokers", *topics):
    brokers(address, client_id)
    for topic in topics:
        partitions(address, client_id, topic)


try:
    main(*sys.argv[1:])
except (OSError, struct.error, ValueError) as error:
    sys.exit(f"{sys.argv[1]}: {error}")
