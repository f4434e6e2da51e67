"""Turns VerifiableProducer's JSON lines into "partition<TAB>offset<TAB>value", in offset order.

usage: acked.py FILE

Fails when an offset was given twice in a partition, or when the acknowledged offsets have gaps.
"""

import json
import sys

acked = {}
for line in open(sys.argv[1]):
    event = json.loads(line)
    if event["name"] != "producer_send_success":
        continue
    place = event["partition"], event["offset"]
    if place in acked:
        sys.exit(f"offset {place} was given to {acked[place]} and to {event['value']}")
    acked[place] = event["value"]

due = {}
for partition, offset in sorted(acked):
    if offset != due.get(partition, 0):
        sys.exit(f"partition {partition}: offset {offset} where {due.get(partition, 0)} was due")
    due[partition] = offset + 1
    print(partition, offset, acked[partition, offset], sep="\t")
