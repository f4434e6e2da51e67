"""The core cases, once for each Python client.

usage: cases.py CLIENT BOOTSTRAP       CLIENT is confluent or kafka_python
"""

import importlib
import sys
import time
import traceback

from records import FIRST_TIME, Record, sequence_of, stamped, value
from with_confluent import Refused

RUN = f"{time.time_ns() // 1_000_000}"
SECONDS_MAX = 30


class Cases:
    def __init__(self, client, name):
        self.client, self.name = client, name

    def topic(self, what, partitions=1, config=None):
        name = f"{self.name}-{what}-{RUN}"
        self.client.create(name, partitions, config)
        self.until(lambda: len(self.client.topics().get(name, {})) == partitions)
        return name

    def until(self, wanted):
        deadline = time.monotonic() + SECONDS_MAX
        while not wanted():
            assert time.monotonic() < deadline, "the metadata never showed what was waited for"
            time.sleep(0.05)

    def refused(self, code, call, *arguments):
        try:
            call(*arguments)
        except Refused as error:
            assert str(error) == code, f"answered {error}, where {code} was due"
        else:
            raise AssertionError(f"accepted, where {code} was due")

    def comes_back(self, topic, partition, sent):
        read = self.client.read(topic, partition, 0, len(sent))
        assert [r.offset for r in read] == list(range(len(sent))), "the offsets are not dense"
        for got, due in zip(read, sent):
            assert got._replace(offset=None) == due, f"{got} where {due} was due"
            sequence_of(got.value)

    def case_created_topic_shows_partitions_with_leaders(self):
        topic = self.topic("created", 7)
        leaders = self.client.topics()[topic]
        assert sorted(leaders) == list(range(7)) and all(leader >= 0 for leader in leaders.values()), leaders

    def case_creating_twice_is_refused(self):
        self.refused("TOPIC_ALREADY_EXISTS", self.client.create, self.topic("twice"), 1)

    def case_a_wrong_name_is_refused(self):
        self.refused("TOPIC_EXCEPTION", self.client.create, "not/a/name", 1)

    def case_every_codec_comes_back_idempotent(self):
        for codec in self.client.codecs:
            topic, sent = self.topic(f"codec-{codec}", 3), stamped(codec, 1000)
            for partition in range(3):
                offsets = self.client.produce(topic, partition, sent, codec)
                assert offsets == list(range(1000)), f"{codec}: offsets {offsets[:5]}…"
                self.comes_back(topic, partition, sent)

    def case_a_plain_producer_is_served(self):
        topic, sent = self.topic("plain"), stamped("plain", 500)
        self.client.produce(topic, 0, sent, idempotent=False)
        self.comes_back(topic, 0, sent)

    def case_nulls_and_empties_come_back(self):
        topic = self.topic("nulls")
        sent = [
            Record(b"k", None, [], FIRST_TIME),
            Record(None, b"v", [("h", b"")], FIRST_TIME + 1),
            Record(b"", b"", [("h", b"1"), ("h", b"2")], FIRST_TIME + 2),
        ]
        self.client.produce(topic, 0, sent)
        read = self.client.read(topic, 0, 0, 3)
        assert [r._replace(offset=None) for r in read] == sent, read

    def case_bounds_follow_the_records(self):
        topic = self.topic("bounds", 2)
        for round in range(3):
            bounds = self.client.bounds(topic, 1)
            assert bounds == (0, 40 * round), bounds
            self.client.produce(topic, 1, stamped("bounds", 40))
        assert self.client.bounds(topic, 0) == (0, 0)

    def case_a_time_finds_the_first_record_at_or_after_it(self):
        for codec in ("none", "gzip"):
            topic = self.topic(f"times-{codec}")
            self.client.produce(topic, 0, stamped("times", 100), codec)
            for after, due in ((-5, 0), (0, 0), (1, 1), (500, 50), (501, 51), (990, 99), (991, None)):
                found = self.client.offset_at(topic, 0, FIRST_TIME + after)
                assert found == due, f"{codec}, {after} ms after the first: {found}, not {due}"

    def case_reading_starts_in_the_middle_of_a_batch(self):
        topic = self.topic("middle")
        self.client.produce(topic, 0, stamped("middle", 100), "gzip")
        for start in (1, 37, 99):
            read = self.client.read(topic, 0, start, 100)
            assert [sequence_of(r.value) for r in read] == list(range(start, 100))

    def case_past_the_end_is_out_of_range(self):
        topic = self.topic("past")
        self.client.produce(topic, 0, stamped("past", 10))
        self.refused("AUTO_OFFSET_RESET", self.client.read, topic, 0, 1000, 1001)

    def case_a_large_record_comes_back_and_a_larger_one_is_refused(self):
        topic = self.topic("large")
        sent = [Record(b"large", value("large", 0, 1_000_000), [], FIRST_TIME)]
        self.client.produce(topic, 0, sent)
        self.comes_back(topic, 0, sent)
        larger = [Record(b"larger", value("larger", 0, 1_200_000), [], FIRST_TIME)]
        self.refused("MSG_SIZE_TOO_LARGE", lambda: self.client.produce(topic, 0, larger, idempotent=False))
        assert self.client.bounds(topic, 0) == (0, 1)

    def case_a_topic_shows_its_config(self):
        config = self.client.config(self.topic("config", 1, {"retention.ms": "3600000"}))
        assert config["retention.ms"] == "3600000", config["retention.ms"]
        assert config["cleanup.policy"] == "delete", config["cleanup.policy"]

    def case_a_grown_topic_keeps_and_takes_records(self):
        topic, sent = self.topic("grown", 1), stamped("grown", 20)
        self.client.produce(topic, 0, sent)
        self.client.grow(topic, 3)
        self.until(lambda: len(self.client.topics()[topic]) == 3)
        self.client.produce(topic, 2, sent)
        for partition in (0, 2):
            self.comes_back(topic, partition, sent)
        self.refused("INVALID_PARTITIONS", self.client.grow, topic, 2)

    def case_a_deleted_topic_is_gone_and_starts_again_empty(self):
        topic = self.topic("again", 2)
        self.client.produce(topic, 0, stamped("old", 30))
        self.client.delete(topic)
        self.until(lambda: topic not in self.client.topics())
        self.refused("UNKNOWN_TOPIC_OR_PART", self.client.delete, topic)
        assert self.topic("again", 2) == topic
        sent = stamped("new", 12)
        self.client.produce(topic, 0, sent)
        assert self.client.bounds(topic, 0) == (0, 12)
        self.comes_back(topic, 0, sent)

    def case_a_group_goes_on_where_it_committed(self):
        topic, group = self.topic("goes-on", 3), f"{self.name}-goes-on-{RUN}"
        for round in range(2):
            for partition in range(3):
                self.client.produce(topic, partition, stamped(f"round{round}", 50))
            read = sorted(self.client.consume(group, topic, 150))
            assert read == [(p, o + 50 * round) for p in range(3) for o in range(50)], f"round {round}: {read[:5]}…"
            due = {partition: 50 * (round + 1) for partition in range(3)}
            assert self.client.committed(group, topic) == due, self.client.committed(group, topic)

    def case_members_share_and_one_takes_over(self):
        topic, group = self.topic("shared", 4), f"{self.name}-shared-{RUN}"
        with self.client.member(group, topic) as one, self.client.member(group, topic) as other:
            self.until(lambda: (sorted(one.partitions() + other.partitions()), len(one.partitions())) == ([0, 1, 2, 3], 2))
            assert self.client.state(group) == ("STABLE", 2), self.client.state(group)
            self.refused("NON_EMPTY_GROUP", self.client.delete_group, group)
            other.leave()
            self.until(lambda: sorted(one.partitions()) == [0, 1, 2, 3])

    def case_members_share_what_the_coordinator_assigns_and_one_takes_over(self):
        if not self.client.speaks_consumer_protocol:
            return
        topic, group = self.topic("assigned", 4), f"{self.name}-assigned-{RUN}"
        for partition in range(4):
            self.client.produce(topic, partition, stamped("assigned", 10))
        read = sorted(self.client.consume(group, topic, 40, modern=True))
        assert read == [(p, o) for p in range(4) for o in range(10)], read[:5]
        assert self.client.committed(group, topic) == {p: 10 for p in range(4)}, self.client.committed(group, topic)
        with self.client.modern_member(group, topic) as one, self.client.modern_member(group, topic) as other:
            self.until(lambda: (sorted(one.partitions() + other.partitions()), len(one.partitions())) == ([0, 1, 2, 3], 2))
            self.refused("NON_EMPTY_GROUP", self.client.delete_group, group)
            other.leave()
            self.until(lambda: sorted(one.partitions()) == [0, 1, 2, 3])
        self.client.delete_group(group)

    def case_a_static_member_comes_back_to_its_partitions(self):
        topic, group = self.topic("static", 2), f"{self.name}-static-{RUN}"
        with self.client.member(group, topic, "first") as one:
            with self.client.member(group, topic, "second") as other:
                self.until(lambda: len(one.partitions()) == len(other.partitions()) == 1)
                had = other.partitions()
            # It has closed without leaving, as static members do: nobody is given its partition.
            with self.client.member(group, topic, "second") as back:
                self.until(lambda: one.partitions() and back.partitions())
                assert back.partitions() == had and len(one.partitions()) == 1
                assert self.client.state(group) == ("STABLE", 2), self.client.state(group)

    def case_offsets_are_set_and_groups_deleted_by_hand(self):
        topic, group = self.topic("by-hand", 2), f"{self.name}-by-hand-{RUN}"
        for partition in range(2):
            self.client.produce(topic, partition, stamped("by-hand", 30))
        self.client.set_offsets(group, topic, {0: 10, 1: 25})
        assert self.client.committed(group, topic) == {0: 10, 1: 25}, self.client.committed(group, topic)
        assert group in self.client.groups()
        read = sorted(self.client.consume(group, topic, 25))
        assert read == [(0, o) for o in range(10, 30)] + [(1, o) for o in range(25, 30)], read[:5]
        self.until(lambda: self.client.state(group) == ("EMPTY", 0))
        self.client.delete_group(group)
        assert self.client.committed(group, topic) == {}, self.client.committed(group, topic)
        assert group not in self.client.groups()
        self.refused("GROUP_ID_NOT_FOUND", self.client.delete_group, group)

    def case_committed_is_read_and_aborted_is_not(self):
        topic = self.topic("transactions")
        self.client.transact(topic, topic, [(b"a", True), (b"b", False), (b"c", False), (b"d", True)])
        assert self.client.committed_values(topic, 2) == [b"a", b"d"]
        # Each end takes an offset too.
        self.until(lambda: self.client.bounds(topic, 0) == (0, 8))


def main(client, bootstrap):
    module = importlib.import_module(f"with_{client}")
    cases = Cases(module.Client(bootstrap), module.NAME)
    names = [name for name in vars(Cases) if name.startswith("case_")]
    failed = 0
    for name in names:
        started = time.monotonic()
        try:
            getattr(cases, name)()
            outcome, reason = "ok    ", ""
        except Exception as error:  # whatever a client throws is a failed case, not the end of the run
            failed += 1
            outcome, reason = "FAILED", f": {type(error).__name__}: {error}"
            traceback.print_exc()
        print(f"{outcome}  {time.monotonic() - started:5.1f} s  {name.removeprefix('case_')}{reason}", flush=True)
    cases.client.close()
    print(f"{module.NAME}: {len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
