"""kafka-python: its own codec, in Python all the way down."""

import threading
import time

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
from kafka.errors import KafkaError, NoError
from kafka.structs import OffsetAndMetadata

from records import Record
from with_confluent import Refused

SECONDS_MAX = 30
NAME = "kafka-python"


def named(error):
    """UnknownTopicOrPartitionError to UNKNOWN_TOPIC_OR_PART, as librdkafka names it."""
    return Refused(NAMES.get(type(error).__name__, type(error).__name__))


NAMES = {
    "GroupIdNotFoundError": "GROUP_ID_NOT_FOUND",
    "InvalidPartitionsError": "INVALID_PARTITIONS",
    "InvalidTopicError": "TOPIC_EXCEPTION",
    "MessageSizeTooLargeError": "MSG_SIZE_TOO_LARGE",
    "NonEmptyGroupError": "NON_EMPTY_GROUP",
    "OffsetOutOfRangeError": "AUTO_OFFSET_RESET",
    "TopicAlreadyExistsError": "TOPIC_ALREADY_EXISTS",
    "UnknownTopicOrPartitionError": "UNKNOWN_TOPIC_OR_PART",
}


class Member:
    """A member of a group. It polls without a pause, in a thread of its own: a poll that ends between joining and being
    assigned makes the client join again, and the whole group with it."""

    def __init__(self, settings, topic):
        self.assigned, self.leaving = [], threading.Event()
        self.polling = threading.Thread(target=self.poll, args=(settings, topic))
        self.polling.start()

    def poll(self, settings, topic):
        consumer = KafkaConsumer(topic, **settings)
        while not self.leaving.is_set():
            consumer.poll(500)
            self.assigned = sorted(one.partition for one in consumer.assignment())
        consumer.close()

    def partitions(self):
        return self.assigned

    def leave(self):
        self.leaving.set()
        self.polling.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()


class Client:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    speaks_consumer_protocol = False

    def __init__(self, bootstrap):
        self.settings = {"bootstrap_servers": bootstrap.split(","), "client_id": "kafka-python-cases"}
        self.admin = KafkaAdminClient(**self.settings)
        self.consumer = KafkaConsumer(
            **self.settings, enable_auto_commit=False, auto_offset_reset="none", allow_auto_create_topics=False
        )

    def close(self):
        self.consumer.close()
        self.admin.close()

    @staticmethod
    def answered(call, *arguments, **named_arguments):
        try:
            return call(*arguments, **named_arguments)
        except KafkaError as error:
            raise named(error) from error

    def create(self, topic, partitions, config=None):
        options = {"num_partitions": partitions, "replication_factor": -1, "configs": config or {}}
        self.answered(self.admin.create_topics, {topic: options}, wait_for_metadata=True)

    def delete(self, topic):
        self.answered(self.admin.delete_topics, [topic])

    def grow(self, topic, partitions):
        self.answered(self.admin.create_partitions, {topic: partitions})

    def config(self, topic):
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        (by_name,) = self.answered(self.admin.describe_configs, [resource], config_filter="all").values()
        return {name: entry["value"] for name, entry in by_name[topic].items()}

    def topics(self):
        shown = self.answered(self.admin.describe_topics)
        return {
            topic["name"]: {p["partition_index"]: p["leader_id"] for p in topic["partitions"]} for topic in shown
        }

    def produce(self, topic, partition, records, codec="none", idempotent=True):
        producer = KafkaProducer(
            **self.settings,
            compression_type=None if codec == "none" else codec,
            enable_idempotence=idempotent,
            acks="all",
            linger_ms=20,
            max_request_size=4_000_000,
            allow_auto_create_topics=False,
            max_block_ms=5000,
        )
        try:
            sent = [
                producer.send(topic, r.value, r.key, r.headers, partition, r.timestamp) for r in records
            ]
            producer.flush(SECONDS_MAX)
            return [self.answered(future.get, SECONDS_MAX).offset for future in sent]
        finally:
            producer.close(timeout=5)

    def read(self, topic, partition, start, end):
        place = TopicPartition(topic, partition)
        self.consumer.assign([place])
        self.consumer.seek(place, start)
        records, deadline = [], time.monotonic() + SECONDS_MAX
        while len(records) < end - start:
            assert time.monotonic() < deadline, f"{len(records)} of {end - start} records after {SECONDS_MAX} s"
            for r in self.answered(self.consumer.poll, timeout_ms=200).get(place, []):
                records.append(Record(r.key, r.value, list(r.headers), r.timestamp, r.offset))
        return records[: end - start]

    def transact(self, transactional_id, topic, ends):
        producer = KafkaProducer(**self.settings, transactional_id=transactional_id)
        try:
            producer.init_transactions()
            for value, commit in ends:
                producer.begin_transaction()
                self.answered(producer.send(topic, value, partition=0).get, SECONDS_MAX)
                producer.commit_transaction() if commit else producer.abort_transaction()
        finally:
            producer.close(timeout=5)

    def committed_values(self, topic, count):
        consumer = KafkaConsumer(**self.settings, enable_auto_commit=False, isolation_level="read_committed")
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, 0)
        values, deadline = [], time.monotonic() + SECONDS_MAX
        while len(values) < count:
            assert time.monotonic() < deadline, f"{values} after {SECONDS_MAX} s"
            values += [r.value for r in self.answered(consumer.poll, timeout_ms=200).get(place, [])]
        consumer.close()
        return values

    def bounds(self, topic, partition):
        place = TopicPartition(topic, partition)
        first, last = self.consumer.beginning_offsets([place]), self.consumer.end_offsets([place])
        return first[place], last[place]

    def offset_at(self, topic, partition, timestamp):
        found = self.consumer.offsets_for_times({TopicPartition(topic, partition): timestamp})
        (found,) = found.values()
        return found.offset if found and found.offset >= 0 else None

    def group_settings(self, group, instance=None):
        settings = {"group_id": group, "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        settings |= {"session_timeout_ms": 10_000, "heartbeat_interval_ms": 300, "group_instance_id": instance}
        return self.settings | settings

    def consume(self, group, topic, count):
        """What a member that is alone in its group reads and commits: (partition, offset)."""
        consumer = KafkaConsumer(topic, **self.group_settings(group))
        read, deadline = [], time.monotonic() + SECONDS_MAX
        while len(read) < count:
            assert time.monotonic() < deadline, f"{len(read)} of {count} records after {SECONDS_MAX} s"
            for records in consumer.poll(200).values():
                read.extend((record.partition, record.offset) for record in records)
        consumer.commit()
        consumer.close()
        return read

    def member(self, group, topic, instance=None):
        return Member(self.group_settings(group, instance), topic)

    def committed(self, group, topic):
        found = self.answered(self.admin.list_group_offsets, group)[group]
        return {one.partition: committed.offset for one, committed in found.items() if one.topic == topic}

    def set_offsets(self, group, topic, offsets):
        wanted = {TopicPartition(topic, p): OffsetAndMetadata(offset, "", -1) for p, offset in offsets.items()}
        for error in self.answered(self.admin.alter_group_offsets, group, wanted).values():
            assert error is NoError, error

    def state(self, group):
        described = self.answered(self.admin.describe_groups, [group])[group]
        return described["group_state"].upper(), len(described["members"])

    def groups(self):
        return [group["group_id"] for group in self.answered(self.admin.list_groups)]

    def delete_group(self, group):
        for error in self.answered(self.admin.delete_groups, [group]).values():
            if error != "OK":
                raise Refused(NAMES.get(error, error))
