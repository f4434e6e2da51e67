"""Sums the JSON lines of `milepost inspect raft-log`: entries, pointers, bytes of log per pointer.

usage: raft_bytes.py NAME RECORDS < LINES

Reads "bytes_on_disk" of every line, and its pointers wherever they stand: a field "pointers" that is
a number or a list, at any depth.
"""

import json
import sys


def pointers(value):
    if isinstance(value, list):
        return sum(map(pointers, value))
    if not isinstance(value, dict):
        return 0
    named = value.get("pointers", 0)
    count = named if isinstance(named, int) else len(named)
    return count + sum(pointers(inner) for name, inner in value.items() if name != "pointers")


name, records = sys.argv[1], int(sys.argv[2])
entries = [json.loads(line) for line in sys.stdin if line.strip()]
log_bytes = sum(entry["bytes_on_disk"] for entry in entries)
count = sum(map(pointers, entries))
print(f"{name}: {len(entries)} entries, {log_bytes} bytes of log ({log_bytes / records:.3f} per record)", end="")
print(f", {count} pointers, {log_bytes / count:.1f} bytes per pointer" if count else ", no pointers")
if not count:
    sys.exit(f"{name}: the log names no pointers")
