"""What clients saw of trouble, from a history and the wall-clock nanoseconds when it began and ended.

usage: trouble.py HISTORY BEGAN_NS HEALED_NS     a line of the table
       trouble.py                                its heading

Exits 1 with the reason when a writer that lived through the trouble was given nothing afterwards, or became fatal.
"""

import json
import sys
from collections import Counter

# A writer that is asked to stop sooner than this after the trouble says nothing about going on.
LEAST_LIFE_AFTER_NS = 5_000_000_000


def events(path):
    with open(path) as lines:
        for line in lines:
            yield json.loads(line)


def took(outcome):
    return outcome["fate"] == "somewhere" or "at" in outcome["fate"]


def main(path, began_ns, healed_ns):
    during, errors, fatal = 0, Counter(), []
    opened, closed, first_after, last_invoked = {}, {}, {}, {}
    sent_at = {}
    for event in events(path):
        kind, process, t = event["f"], event["process"], event["t"]
        if kind == "began":
            began, healed = int(began_ns) - event["wall_ns"], int(healed_ns) - event["wall_ns"]
        elif kind == "open" and event["role"] == "writer":
            opened[process] = t
        elif kind == "closed" and process in opened:
            closed[process] = t
            if event["error"]:
                fatal.append(event["error"])
        elif kind == "send":
            sent_at[event["op"]] = t
            last_invoked[process] = t
        elif kind == "sent":
            acked = sum(o["count"] for o in event["outcomes"] if took(o))
            during += acked if began <= t < healed else 0
            if acked and t >= healed:
                first_after.setdefault(process, t)
            errors.update(o["error"] for o in event["outcomes"] if o.get("error"))
        elif kind == "polled":
            errors.update(event["errors"])
        elif kind == "failed":
            errors[event["error"]] += 1
    lived = [p for p in opened if opened[p] < healed and closed.get(p, t) > healed + LEAST_LIFE_AFTER_NS]
    silent = [p for p in lived if p not in first_after]
    if fatal or silent or not lived:
        sys.exit(f"fatal: {fatal}; given nothing after the trouble: {silent} of {lived}; errors: {dict(errors)}")
    waits = sorted((first_after[p] - healed) // 1_000_000 for p in lived)
    told = "; ".join(f"{count} x {error}" for error, count in errors.most_common(3)) or "none"
    return f"{during:>8} {waits[0]:>9} {waits[-1]:>8}  {sum(errors.values()):>6} ({told})"


if len(sys.argv) == 1:
    print("  acked  first ack  last's   errors clients saw")
else:
    print(main(*sys.argv[1:]))
