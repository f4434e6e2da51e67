"""Waits until the cluster is whole: every broker replicates every shard, and every shard, the root's included,
has as many voters with its whole log as there are brokers.

usage: whole.py SECONDS_MAX METRICS_HOST:PORT...

Prints the seconds that it took and, for each broker, the bytes that it has received from others since its
start. Exits 1 with what is missing when the time is over.
"""

import re
import sys
import time
import urllib.request

SAMPLE = re.compile(r'^milepost_(\w+)\{shard="(\d+)"\} (\S+)', re.MULTILINE)
RECEIVED = re.compile(r"^milepost_peer_bytes_received_total\{.*\} (\S+)", re.MULTILINE)
ROOT = "0"


def missing(texts):
    """What keeps the cluster from being whole; empty when nothing does."""
    replicas, voters = {}, {ROOT: 0}
    for broker, text in texts.items():
        for name, shard, value in SAMPLE.findall(text):
            if name == "shard_leader":
                replicas.setdefault(shard, set()).add(broker)
            elif name == "shard_voters_caught_up":
                voters[shard] = max(voters.get(shard, 0), int(float(value)))
    wanted = len(texts)
    few = [f"shard {shard} is at {len(at)} brokers" for shard, at in replicas.items() if len(at) < wanted]
    few += [f"shard {s} has no leader" for s in replicas if s not in voters]
    few += [f"shard {s} has {count} voters" for s, count in voters.items() if count < wanted]
    return few if replicas else ["no shards"]


def main(seconds_max, *addresses):
    began = time.monotonic()
    while True:
        try:
            texts = {a: urllib.request.urlopen(f"http://{a}/metrics", timeout=2).read().decode() for a in addresses}
            why = missing(texts)
        except OSError as error:
            why = [str(error)]
        if not why:
            break
        if time.monotonic() - began > float(seconds_max):
            sys.exit(f"not whole after {seconds_max} s: {'; '.join(why)}")
        time.sleep(0.05)
    received = [sum(int(float(n)) for n in RECEIVED.findall(text)) for text in texts.values()]
    print(f"{time.monotonic() - began:.1f}", *received)


main(*sys.argv[1:])
