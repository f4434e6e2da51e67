// Writes until it is told to stop (tests/bounce.sh), saying five times a second how far it is.
//
//   node bounce.js BOOTSTRAP TOPIC ZONE RECORDS_PER_SECOND
//
// KafkaJS consumes in groups only, which the broker does not have yet: what counts as read is how far the topic's
// partitions are by ListOffsets, asked in a client of its own.
"use strict";
const { Kafka, logLevel } = require("kafkajs");

const PARTITIONS = 3;
const SENDS_PER_SECOND = 10;
/// Sends that wait for their answer; no more are begun while a broker is away.
const WAITING_MAX = 20;
const PATIENCE_MS = 60_000;
const [bootstrap, topic, zone, perSecond] = process.argv.slice(2);
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

async function main() {
  const kafka = () =>
    new Kafka({ clientId: `kafkajs,zone=${zone}`, brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });
  const counts = { acked: 0, read: 0, failed: 0 };
  let stopping = false;
  process.on("SIGTERM", () => (stopping = true));

  const admin = kafka().admin();
  await admin.connect();
  await admin.createTopics({
    topics: [{ topic, numPartitions: PARTITIONS, replicationFactor: 3 }],
    waitForLeaders: true,
  });
  const producer = kafka().producer({ allowAutoTopicCreation: false });
  await producer.connect();

  const tell = () => console.log(Date.now(), counts.acked, counts.read, counts.failed);
  const telling = setInterval(tell, 200);
  let looking = true;
  const looks = (async () => {
    while (looking) {
      try {
        const ends = await admin.fetchTopicOffsets(topic);
        counts.read = ends.reduce((sum, end) => sum + Number(end.high), 0);
      } catch {
        counts.failed += 1;
      }
      await pause(200);
    }
  })();

  const each = Math.max(1, Math.round(perSecond / SENDS_PER_SECOND));
  const waiting = new Set();
  while (!stopping) {
    if (waiting.size < WAITING_MAX) {
      const messages = Array.from({ length: each }, (_, n) => ({ value: `${n} ${"0".repeat(100)}` }));
      const sent = producer
        .send({ topic, acks: -1, messages })
        .then(() => (counts.acked += each), () => (counts.failed += 1))
        .finally(() => waiting.delete(sent));
      waiting.add(sent);
    }
    await pause(1000 / SENDS_PER_SECOND);
  }
  const patience = Date.now() + PATIENCE_MS;
  await Promise.race([Promise.all(waiting), pause(PATIENCE_MS)]);
  while (counts.read < counts.acked && Date.now() < patience) await pause(50);
  clearInterval(telling);
  looking = false;
  await looks;
  tell();
  process.exit(0);
}

main().catch((error) => {
  console.error(`kafkajs: ${error}`);
  process.exit(1);
});
