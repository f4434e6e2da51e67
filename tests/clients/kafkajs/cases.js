// Stock-client cases over KafkaJS: old protocol versions, a codec of its own, on Node.
//
//   node cases.js BOOTSTRAP       ZONES=az1=HOST:PORT,… adds the case with zones
//
// KafkaJS consumes in groups only; it has no way to read an assigned partition. Until the broker has groups, what was
// written is checked by the offsets it got and by what ListOffsets tells.
"use strict";
const assert = require("node:assert/strict");
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const RUN = Date.now();
const FIRST_TIME = 1_600_000_000_000;
const SECONDS_MAX = 30;
const brokers = process.argv[2].split(",");

function client(clientId) {
  return new Kafka({ clientId, brokers, logLevel: logLevel.NOTHING });
}

async function until(holds) {
  const deadline = Date.now() + SECONDS_MAX * 1000;
  while (!(await holds())) {
    assert(Date.now() < deadline, "the metadata never showed what was waited for");
    await new Promise((done) => setTimeout(done, 50));
  }
}

const kafka = client("kafkajs-cases");
const admin = kafka.admin();

async function topic(what, numPartitions = 1) {
  const name = `kafkajs-${what}-${RUN}`;
  assert(await admin.createTopics({ topics: [{ topic: name, numPartitions }], waitForLeaders: true }));
  return name;
}

async function partitions(name) {
  const { topics } = await admin.fetchTopicMetadata({ topics: [name] });
  return topics[0].partitions;
}

async function refused(type, call) {
  try {
    await call();
  } catch (error) {
    const found = [error, error.cause, ...(error.errors ?? [])].some((one) => one?.type === type);
    assert(found, `answered ${error}, where ${type} was due`);
    return;
  }
  assert.fail(`accepted, where ${type} was due`);
}

function stamped(count) {
  return Array.from({ length: count }, (_, n) => ({
    key: `key-${n}`,
    value: `${n} ${"x".repeat(500)}`,
    headers: { n: String(n) },
    timestamp: String(FIRST_TIME + 10 * n),
    partition: 0,
  }));
}

async function producing(settings, work) {
  const producer = kafka.producer(settings);
  await producer.connect();
  try {
    return await work(producer);
  } finally {
    await producer.disconnect();
  }
}

const cases = {
  async created_topics_show_partitions_with_leaders() {
    const shown = await partitions(await topic("created", 7));
    assert.equal(shown.length, 7);
    for (const one of shown) {
      assert(one.partitionErrorCode === 0 && one.leader >= 0 && one.replicas.length > 0, JSON.stringify(one));
    }
  },

  async creating_twice_is_said_so() {
    const name = await topic("twice");
    assert.equal(await admin.createTopics({ topics: [{ topic: name }] }), false);
  },

  async a_wrong_name_is_refused() {
    await refused("INVALID_TOPIC_EXCEPTION", () => admin.createTopics({ topics: [{ topic: "not/a/name" }] }));
  },

  async every_producer_gets_offsets_in_a_row() {
    for (const idempotent of [false, true]) {
      for (const compression of [CompressionTypes.None, CompressionTypes.GZIP]) {
        const name = await topic(`row-${idempotent}-${compression}`);
        await producing({ idempotent }, async (producer) => {
          for (let round = 0; round < 5; round++) {
            const sent = { topic: name, compression, acks: -1, messages: stamped(100) };
            const [told] = await producer.send(sent);
            assert.equal(told.baseOffset, String(100 * round));
          }
        });
        const [bounds] = await admin.fetchTopicOffsets(name);
        assert.deepEqual([bounds.low, bounds.high], ["0", "500"]);
      }
    }
  },

  async a_time_finds_the_first_record_at_or_after_it() {
    const name = await topic("times");
    const sent = { topic: name, compression: CompressionTypes.GZIP, messages: stamped(100) };
    await producing({}, (producer) => producer.send(sent));
    // KafkaJS makes of "none" the end of the log.
    for (const [after, due] of [[-5, 0], [0, 0], [1, 1], [501, 51], [991, 100]]) {
      const [found] = await admin.fetchTopicOffsetsByTimestamp(name, FIRST_TIME + after);
      assert.equal(found.offset, String(due), `${after} ms after the first`);
    }
  },

  async a_larger_record_is_refused() {
    const name = await topic("large");
    const sent = (bytes) => ({ topic: name, messages: [{ value: Buffer.alloc(bytes) }] });
    await producing({ retry: { retries: 0 } }, async (producer) => {
      await producer.send(sent(1_040_000));
      await refused("MESSAGE_TOO_LARGE", () => producer.send(sent(1_100_000)));
    });
  },

  async a_topic_made_by_writing_takes_the_write() {
    const name = `kafkajs-by-writing-${RUN}`;
    const sent = { topic: name, messages: [{ value: "v" }] };
    const [told] = await producing({ allowAutoTopicCreation: true }, (producer) => producer.send(sent));
    assert.equal(told.baseOffset, "0");
  },

  async a_grown_topic_shows_and_takes_records() {
    const name = await topic("grown");
    await admin.createPartitions({ topicPartitions: [{ topic: name, count: 3 }] });
    await until(async () => (await partitions(name)).length === 3);
    const messages = [{ value: "v", partition: 2 }];
    const [told] = await producing({}, (producer) => producer.send({ topic: name, messages }));
    assert.deepEqual([told.partition, told.baseOffset], [2, "0"]);
  },

  async a_topic_shows_its_config() {
    const name = `kafkajs-config-${RUN}`;
    const configEntries = [{ name: "retention.ms", value: "3600000" }];
    await admin.createTopics({ topics: [{ topic: name, configEntries }] });
    const { resources } = await admin.describeConfigs({ resources: [{ type: 2, name }] });
    const entry = resources[0].configEntries.find((one) => one.configName === "retention.ms");
    assert.equal(entry.configValue, "3600000");
  },

  async deleted_topics_are_gone() {
    const name = await topic("deleted", 2);
    await admin.deleteTopics({ topics: [name] });
    await until(async () => !(await admin.listTopics()).includes(name));
  },
};

if (process.env.ZONES) {
  cases.a_client_with_a_zone_is_led_to_its_broker = async () => {
    const name = await topic("led", 12);
    for (const zone of process.env.ZONES.split(",")) {
      const [id, due] = zone.split("=");
      const inZone = client(`kafkajs,zone=${id}`).admin();
      await inZone.connect();
      const addresses = new Map((await inZone.describeCluster()).brokers.map((b) => [b.nodeId, `${b.host}:${b.port}`]));
      const { topics } = await inZone.fetchTopicMetadata({ topics: [name] });
      await inZone.disconnect();
      for (const { partitionId, leader } of topics[0].partitions) {
        assert.equal(addresses.get(leader), due, `a client of ${id}, partition ${partitionId}`);
      }
    }
  };
}

async function main() {
  let failed = 0;
  await admin.connect();
  for (const [name, run] of Object.entries(cases)) {
    const started = Date.now();
    let outcome = "ok    ", reason = "";
    try {
      await run();
    } catch (error) {
      failed += 1;
      outcome = "FAILED";
      reason = `: ${error.message}`;
    }
    console.log(`${outcome}  ${((Date.now() - started) / 1000).toFixed(1).padStart(5)} s  ${name}${reason}`);
  }
  await admin.disconnect();
  console.log(`kafkajs: ${Object.keys(cases).length - failed} passed, ${failed} failed`);
  process.exitCode = failed ? 1 : 0;
}

main();
