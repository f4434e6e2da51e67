"""confluent-kafka: librdkafka under Python."""

import time

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic, ResourceType

from records import Record

SECONDS_MAX = 30
NAME = "confluent-kafka"


class Refused(Exception):
    """A broker's error by its protocol name."""


def named(error):
    return Refused(error.name().lstrip("_"))


class Member:
    """A member of a group; it polls whenever it is asked what it has."""

    def __init__(self, settings, topic):
        self.consumer = Consumer(settings)
        self.consumer.subscribe([topic])

    def partitions(self):
        self.consumer.poll(0.05)
        return sorted(one.partition for one in self.consumer.assignment())

    def leave(self):
        self.consumer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.leave()


class Client:
    codecs = ["none", "gzip", "snappy", "lz4", "zstd"]
    speaks_consumer_protocol = True

    def __init__(self, bootstrap):
        self.settings = {"bootstrap.servers": bootstrap, "client.id": "confluent-cases", "log_level": 3}
        self.settings["allow.auto.create.topics"] = False
        self.admin = AdminClient(self.settings)
        self.consumer = Consumer(
            self.settings | {"group.id": "assigned-by-hand", "enable.auto.commit": False, "auto.offset.reset": "error"}
        )

    def close(self):
        self.consumer.close()

    @staticmethod
    def answered(futures):
        try:
            return [future.result(SECONDS_MAX) for future in futures.values()]
        except KafkaException as error:
            raise named(error.args[0]) from error

    def create(self, topic, partitions, config=None):
        self.answered(self.admin.create_topics([NewTopic(topic, partitions, -1, config=config or {})]))

    def delete(self, topic):
        self.answered(self.admin.delete_topics([topic]))

    def grow(self, topic, partitions):
        self.answered(self.admin.create_partitions([NewPartitions(topic, partitions)]))

    def config(self, topic):
        (entries,) = self.answered(self.admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
        return {name: entry.value for name, entry in entries.items()}

    def topics(self):
        """Each topic's partitions, and the leader of each."""
        shown = self.admin.list_topics(timeout=SECONDS_MAX).topics
        return {name: {p.id: p.leader for p in topic.partitions.values()} for name, topic in shown.items()}

    def produce(self, topic, partition, records, codec="none", idempotent=True):
        producer = Producer(
            self.settings
            | {"compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 20, "message.max.bytes": 4_000_000}
        )
        offsets, refused = [], []

        def told(error, message):
            refused.append(error) if error else offsets.append(message.offset())

        for record in records:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=partition,
                headers=record.headers,
                timestamp=record.timestamp,
                on_delivery=told,
            )
        assert producer.flush(SECONDS_MAX) == 0, "not every record's fate was told"
        if refused:
            raise named(refused[0])
        return offsets

    def read(self, topic, partition, start, end):
        self.consumer.assign([TopicPartition(topic, partition, start)])
        records, deadline = [], time.monotonic() + SECONDS_MAX
        while len(records) < end - start:
            assert time.monotonic() < deadline, f"{len(records)} of {end - start} records after {SECONDS_MAX} s"
            message = self.consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                raise named(message.error())
            headers = message.headers() or []
            records.append(Record(message.key(), message.value(), headers, message.timestamp()[1], message.offset()))
        return records

    def transact(self, transactional_id, topic, ends):
        """A transaction of one record for each: (value, whether it is committed)."""
        producer = Producer(self.settings | {"transactional.id": transactional_id})
        producer.init_transactions(SECONDS_MAX)
        for value, commit in ends:
            producer.begin_transaction()
            producer.produce(topic, value, partition=0)
            producer.flush(SECONDS_MAX)
            (producer.commit_transaction if commit else producer.abort_transaction)(SECONDS_MAX)

    def committed_values(self, topic, count):
        settings = {"group.id": "committed", "enable.auto.commit": False, "isolation.level": "read_committed"}
        consumer = Consumer(self.settings | settings)
        consumer.assign([TopicPartition(topic, 0, 0)])
        values, deadline = [], time.monotonic() + SECONDS_MAX
        while len(values) < count:
            assert time.monotonic() < deadline, f"{values} after {SECONDS_MAX} s"
            message = consumer.poll(0.2)
            if message is not None and not message.error():
                values.append(message.value())
        consumer.close()
        return values

    def bounds(self, topic, partition):
        return self.consumer.get_watermark_offsets(TopicPartition(topic, partition), SECONDS_MAX)

    def offset_at(self, topic, partition, timestamp):
        """None when no record is that young."""
        (found,) = self.consumer.offsets_for_times([TopicPartition(topic, partition, timestamp)], SECONDS_MAX)
        return found.offset if found.offset >= 0 else None

    def group_settings(self, group, instance=None):
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        settings |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 300}
        return self.settings | settings | ({"group.instance.id": instance} if instance else {})

    def modern_settings(self, group):
        """Of a member of the consumer protocol: the broker assigns, and says how often it is heard."""
        settings = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        return self.settings | settings | {"group.protocol": "consumer"}

    def modern_member(self, group, topic):
        return Member(self.modern_settings(group), topic)

    def consume(self, group, topic, count, modern=False):
        """What a member that is alone in its group reads and commits: (partition, offset)."""
        consumer = Consumer(self.modern_settings(group) if modern else self.group_settings(group))
        consumer.subscribe([topic])
        read, deadline = [], time.monotonic() + SECONDS_MAX
        while len(read) < count:
            assert time.monotonic() < deadline, f"{len(read)} of {count} records after {SECONDS_MAX} s"
            message = consumer.poll(0.2)
            if message is None:
                continue
            if message.error():
                raise named(message.error())
            read.append((message.partition(), message.offset()))
        consumer.commit(asynchronous=False)
        consumer.close()
        return read

    def member(self, group, topic, instance=None):
        return Member(self.group_settings(group, instance), topic)

    def committed(self, group, topic):
        (found,) = self.answered(self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]))
        return {one.partition: one.offset for one in found.topic_partitions if one.topic == topic}

    def set_offsets(self, group, topic, offsets):
        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        self.answered(self.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)]))

    def state(self, group):
        (described,) = self.answered(self.admin.describe_consumer_groups([group]))
        return described.state.name, len(described.members)

    def groups(self):
        return [group.group_id for group in self.admin.list_consumer_groups().result(SECONDS_MAX).valid]

    def delete_group(self, group):
        self.answered(self.admin.delete_consumer_groups([group]))
