"""What tests/bounce.sh is for: every client goes on after every bounce.

usage: bounce.py DIR SECONDS_MAX CLIENT…

DIR has `bounces` (ms, kind, broker; the last is the end) and, for each client, CLIENT.progress (ms, acked, read,
errors). Prints a line per client and exits 1 when one made no progress in writing or reading within SECONDS_MAX of a
bounce or before the end, or has not read what was acknowledged.
"""

import sys
from pathlib import Path

ACKED, READ, ERRORS = 1, 2, 3


def lines(path):
    # The last line may be cut when a client was killed.
    rows = [line.split() for line in path.read_text().splitlines()]
    return [[int(word) for word in row] for row in rows if len(row) == 4 and all(word.isdigit() for word in row)]


def pauses(progress, column, until):
    """(start, seconds) of every time without progress."""
    since, last = progress[0][0], progress[0][column]
    for row in progress:
        if row[0] > until:
            break
        if row[column] > last:
            yield since, (row[0] - since) / 1000
            since, last = row[0], row[column]
    yield since, (until - since) / 1000


def main(directory, seconds_max, clients):
    bounces = [(int(ms), kind, broker) for ms, kind, broker in map(str.split, (directory / "bounces").open())]
    end = bounces[-1][0]
    stuck = False
    print(f"{'client':<12}{'acked':>9}{'read':>9}{'errors':>8}{'longest pause, s: written':>27}{'read':>7}")
    for client in clients:
        progress = lines(directory / f"{client}.progress")
        longest = {}
        for column in (ACKED, READ):
            found = list(pauses(progress, column, end))
            longest[column] = max(seconds for _, seconds in found)
            for start, seconds in found:
                if seconds > seconds_max:
                    stuck = True
                    what = "written" if column == ACKED else "read"
                    before = [f"{kind} of broker {broker}" for ms, kind, broker in bounces if ms <= start + 1000]
                    print(f"{client}: nothing {what} for {seconds:.1f} s, after {before[-1] if before else 'the start'}")
        _, acked, read, errors = progress[-1]
        print(f"{client:<12}{acked:>9}{read:>9}{errors:>8}{longest[ACKED]:>27.1f}{longest[READ]:>7.1f}")
        if read < acked:
            stuck = True
            print(f"{client}: {acked - read} acknowledged records were never read")
    return stuck


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
