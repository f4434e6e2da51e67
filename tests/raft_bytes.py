"""Sums the JSON lines of `milepost inspect raft-log`: entries, pointers, bytes per pointer.

usage: raft_bytes.py NAME RECORDS < LINES

A pointer's own bytes are counted apart from what an entry and the object's name take.
"""

import json
import sys

name, records = sys.argv[1], int(sys.argv[2])
entries = [json.loads(line) for line in sys.stdin if line.strip()]
appends = [entry for entry in entries if entry["kind"] == "append"]
log_bytes = sum(entry["bytes_on_disk"] for entry in entries)
append_bytes = sum(entry["bytes_on_disk"] for entry in appends)
pointer_bytes = sum(entry["entry"]["pointer_bytes"] for entry in appends)
count = sum(len(entry["entry"]["pointers"]) for entry in appends)
print(f"{name}: {len(entries)} entries, {log_bytes} bytes of log ({log_bytes / records:.3f} per record)")
if not count:
    sys.exit(f"{name}: the log names no pointers")
print(
    f"{name}: {len(appends)} objects, {count} pointers: {pointer_bytes / count:.1f} bytes per pointer, "
    f"{(append_bytes - pointer_bytes) / len(appends):.1f} more per entry with its object's name"
)
