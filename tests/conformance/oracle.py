"""Kafka's oracle over what its tools printed.

usage: oracle.py consumed PRODUCED CONSUMED     what VerifiableProducer was acknowledged, VerifiableConsumer read
       oracle.py copied PRODUCED COPY COPIER END    a topic's committed records, one a line, are what was produced; how the copier
                                        went, as it told itself, and by where the copy ends
       oracle.py lines once|repeats WRITTEN READ    the lines of one file are those of another, in order; with repeats, a line
                                        that was read may be read again, with what follows
"""

import json
import sys
from collections import Counter
from datetime import datetime


def events(path, name):
    for line in open(path):
        if line.startswith("{"):
            event = json.loads(line)
            if event["name"] == name:
                yield event


def acknowledged(path):
    """What was acknowledged where: value by (partition, offset)."""
    places = {}
    for event in events(path, "producer_send_success"):
        place = event["partition"], event["offset"]
        if place in places:
            sys.exit(f"{place} was given to {places[place]} and to {event['value']}")
        places[place] = event["value"]
    return places


def consumed(produced, read):
    """Members that come and go read records again, but always the same ones, and forward in between."""
    acked, seen = acknowledged(produced), {}
    for event in events(read, "record_data"):
        place = event["partition"], event["offset"]
        if seen.setdefault(place, event["value"]) != event["value"]:
            sys.exit(f"{place} was read as {seen[place]} and as {event['value']}")
    lost = [place for place in acked if place not in seen]
    if lost:
        sys.exit(f"{len(lost)} of {len(acked)} acknowledged records were not read, the first at {min(lost)}")
    other = [place for place in acked if acked[place] != seen[place]]
    if other:
        sys.exit(f"at {min(other)} {acked[min(other)]} was acknowledged and {seen[min(other)]} read")
    twice = [value for value, times in Counter(seen.values()).items() if times > 1]
    if twice:
        sys.exit(f"{len(twice)} values are at two offsets, {twice[0]} among them")
    last = {}
    for (partition, _), value in sorted(seen.items()):
        number = int(value.rsplit(".", 1)[-1])
        if number < last.get(partition, -1):
            sys.exit(f"partition {partition}: {number} comes after {last[partition]}")
        last[partition] = number
    print(f"{len(acked)} records acknowledged, {len(seen)} read")


def copied(produced, copy, copier, end):
    due = Counter(event["value"] for event in events(produced, "producer_send_success"))
    got = Counter(line.rstrip("\n") for line in open(copy))
    if due != got:
        missing, extra = due - got, got - due
        sys.exit(f"missing {sum(missing.values())} {list(missing)[:3]}, too many {sum(extra.values())} {list(extra)[:3]}")
    print(f"{sum(due.values())} records copied exactly once")
    progress(open(copier).read().splitlines(), int(end) - sum(due.values()))


def progress(told, besides):
    """How the copier went: before each transaction it tells how much it has copied, which an aborted one leaves as it was."""
    rounds = [json.loads(line) for line in told if '"stage":"ProcessLoop"' in line]
    times = [datetime.strptime(r["time"], "%Y/%m/%d %H:%M:%S:%f") for r in rounds]
    pauses = sorted(((after - before).total_seconds() for before, after in zip(times, times[1:])), reverse=True)
    committed = sum(after["totalProcessed"] > before["totalProcessed"] for before, after in zip(rounds, rounds[1:]))
    print(f"{committed} transactions committed and {len(rounds) - 1 - committed} not, in {(times[-1] - times[0]).total_seconds():.0f} s; "
          f"{besides} markers and aborted records lie between the copies; the copier ended {told.count('ended by an error')} times "
          f"by an error; the longest pauses took {pauses[:5]} s")


def lines(how, written, read):
    due, got = open(written).read().splitlines(), open(read).read().splitlines()
    first = list(dict.fromkeys(got))
    if first != due:
        missing, extra = Counter(due) - Counter(first), Counter(first) - Counter(due)
        sys.exit(f"of {len(due)} lines {sum(missing.values())} are missing {list(missing)[:3]}, {sum(extra.values())} were never "
                 f"written {list(extra)[:3]}" + ("" if missing or extra else "; they are in another order"))
    if how == "once" and len(got) != len(due):
        twice = [line for line, times in Counter(got).items() if times > 1]
        sys.exit(f"{len(twice)} of {len(due)} lines are there more than once, {twice[:3]} among them")
    print(f"{len(due)} lines, {len(got) - len(due)} repeats")


if __name__ == "__main__":
    {"consumed": consumed, "copied": copied, "lines": lines}[sys.argv[1]](*sys.argv[2:])
