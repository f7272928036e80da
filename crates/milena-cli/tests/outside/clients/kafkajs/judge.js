// Tests of a broker with KafkaJS, which has its own protocol code in JavaScript.
//
// `node judge.js HOST:PORT`; the broker must have no topic whose name begins with `kafkajs`.
//
// KafkaJS compresses by gzip only. Packages in plain JavaScript and WebAssembly add the other codecs. Its consumer reads
// in groups only, so reads without a group use the layer below, which sends and decodes the same requests.

const assert = require('node:assert/strict')
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, Partitioners, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const { createLogger } = require('kafkajs/src/loggers')
const LoggerConsole = require('kafkajs/src/loggers/console')
const socketFactory = require('kafkajs/src/network/socketFactory')
const SnappyCodec = require('kafkajs-snappy')
const lz4 = require('lz4js')
const xxh32 = require('lz4js/xxh32')
const { ZstdCodec } = require('zstd-codec')

const BROKERS = [process.argv[2]]
const TOPIC = 'kafkajs'
const GROUPS_TOPIC = 'kafkajs-groups'
const TARGET_TOPIC = 'kafkajs-target'
const CODECS = ['None', 'GZIP', 'Snappy', 'LZ4', 'ZSTD']
const START_MS = 1_700_000_000_000

async function addCodecs() {
  CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
  CompressionCodecs[CompressionTypes.LZ4] = () => ({
    compress: async encoder => withIndependentBlocks(Buffer.from(lz4.compress(encoder.buffer))),
    decompress: async buffer => Buffer.from(lz4.decompress(buffer)),
  })
  const zstd = await new Promise(resolve => ZstdCodec.run(module => resolve(new module.Simple())))
  CompressionCodecs[CompressionTypes.ZSTD] = () => ({
    compress: async encoder => Buffer.from(zstd.compress(encoder.buffer)),
    decompress: async buffer => Buffer.from(zstd.decompress(buffer)),
  })
}

// Java's clients read only frames with independent blocks. This holds for the one block here, but lz4js does not set the flag.
function withIndependentBlocks(frame) {
  frame[4] |= 0x20
  frame[6] = xxh32.hash(0, frame, 4, 2) >> 8
  return frame
}

// Records with every optional part missing at least once, similar enough to compress.
function messages(codec) {
  const special = [
    { key: 'key', value: `by ${codec}`, headers: { kind: ['first', 'second'], other: 'x' } },
    { key: null, value: 'without a key', headers: {} },
    { key: 'without a value', value: null, headers: { empty: '' } },
    { key: '', value: '', headers: {} },
    { key: 'ключ', value: 'значение', headers: { название: 'имя' } },
  ]
  const many = Array.from({ length: 300 }, (_, i) => ({
    key: `key ${i}`,
    value: `letter ${i} by ${codec} `.repeat(20),
    headers: { number: `${i}` },
  }))
  return [...special, ...many].map((message, i) => ({ ...message, timestamp: `${START_MS + i}` }))
}

const text = value => (Buffer.isBuffer(value) ? value.toString() : value)

function readable({ key, value, headers, timestamp }) {
  const entries = Object.entries(headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value.map(text) : text(value),
  ])
  return { key: text(key), value: text(value), headers: Object.fromEntries(entries), timestamp }
}

// Sends all records in several batches; returns the acknowledged base offsets.
async function produce(producer, partition, codec) {
  const sent = messages(codec)
  const offsets = []
  for (let first = 0; first < sent.length; first += 100) {
    const part = sent.slice(first, first + 100).map(message => ({ ...message, partition }))
    const [result] = await producer.send({
      topic: TOPIC,
      compression: CompressionTypes[codec],
      acks: -1,
      messages: part,
    })
    assert.equal(result.errorCode, 0)
    offsets.push(Number(result.baseOffset))
  }
  return offsets
}

async function consume(broker, partition, first, end) {
  const read = []
  for (let offset = first; offset < end; offset = Number(read.at(-1).offset) + 1) {
    const topics = [{ topic: TOPIC, partitions: [{ partition, fetchOffset: `${offset}`, maxBytes: 1_000 }] }]
    const { responses } = await broker.fetch({ isolationLevel: 1, topics })
    const [answer] = responses[0].partitions
    assert.equal(answer.errorCode, 0)
    assert.equal(Number(answer.highWatermark), end)
    // Batches are sent whole, so the first one may start before the requested offset.
    const fresh = answer.messages.filter(message => Number(message.offset) >= offset)
    assert.notEqual(fresh.length, 0, `nothing at offset ${offset}`)
    read.push(...fresh)
  }
  return read
}

async function checkCodec(producer, broker, partition, codec) {
  const sent = messages(codec)
  assert.deepEqual(await produce(producer, partition, codec), [0, 100, 200, 300])
  const read = await consume(broker, partition, 0, sent.length)
  assert.deepEqual(read.map(message => Number(message.offset)), sent.map((_, i) => i))
  assert.deepEqual(read.map(readable), sent.map(readable))
  const rest = await consume(broker, partition, 123, sent.length)
  assert.deepEqual(rest.map(readable), sent.slice(123).map(readable))
}

async function checkAdmin(admin) {
  const count = messages('None').length
  const found = (offsets, partition) => Number(offsets.find(entry => entry.partition === partition).offset)
  const watermarks = async partition => {
    const entry = (await admin.fetchTopicOffsets(TOPIC)).find(entry => entry.partition === partition)
    return [Number(entry.low), Number(entry.high)]
  }
  for (const partition of CODECS.keys()) {
    assert.deepEqual(await watermarks(partition), [0, count])
    assert.equal(found(await admin.fetchTopicOffsetsByTimestamp(TOPIC, START_MS + 200), partition), 200)
    assert.equal(found(await admin.fetchTopicOffsetsByTimestamp(TOPIC, START_MS + count), partition), count)
  }
  await admin.deleteTopicRecords({ topic: TOPIC, partitions: [{ partition: 2, offset: '100' }] })
  assert.deepEqual(await watermarks(2), [100, count])
  const resource = { type: ConfigResourceTypes.TOPIC, name: TOPIC }
  await admin.alterConfigs({
    validateOnly: false,
    resources: [{ ...resource, configEntries: [{ name: 'max.message.bytes', value: '2000' }] }],
  })
  const described = await admin.describeConfigs({
    includeSynonyms: true,
    resources: [{ ...resource, configNames: ['max.message.bytes'] }],
  })
  assert.equal(described.resources[0].configEntries[0].configValue, '2000')
  await admin.createPartitions({ topicPartitions: [{ topic: TOPIC, count: CODECS.length + 1 }] })
  const { topics } = await admin.fetchTopicMetadata({ topics: [TOPIC] })
  assert.equal(topics[0].partitions.length, CODECS.length + 1)
}

// Lets a member read this many messages; returns their values.
function readByGroup(consumer, count) {
  return new Promise((resolve, reject) => {
    const values = []
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
    consumer
      .run({
        eachMessage: async ({ message }) => {
          values.push(text(message.value))
          if (values.length === count) resolve(values)
        },
      })
      .catch(reject)
  })
}

const joined = (consumer, test) =>
  new Promise(resolve =>
    consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
      const partitions = payload.memberAssignment[GROUPS_TOPIC] ?? []
      if (test(partitions)) resolve(partitions)
    }),
  )

// Two members share a topic; one leaves, and the other continues at the committed offsets.
async function checkGroup(kafka, admin) {
  await admin.createTopics({ topics: [{ topic: GROUPS_TOPIC, numPartitions: 4 }] })
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const send = word =>
    producer.send({
      topic: GROUPS_TOPIC,
      messages: Array.from({ length: 40 }, (_, i) => ({ partition: i % 4, value: `${word} ${i}` })),
    })
  const groupId = 'kafkajs-group'
  const members = [0, 1].map(() => kafka.consumer({ groupId, maxWaitTimeInMs: 100, heartbeatInterval: 300 }))
  for (const member of members) {
    await member.connect()
    await member.subscribe({ topic: GROUPS_TOPIC, fromBeginning: true })
  }
  const shares = members.map(member => joined(member, partitions => partitions.length === 2))
  const read = []
  const enough = count =>
    new Promise(resolve => {
      const timer = setInterval(() => read.length >= count && resolve(clearInterval(timer)), 20)
    })
  for (const member of members) {
    await member.run({ autoCommitThreshold: 1, eachMessage: async ({ message }) => read.push(text(message.value)) })
  }
  const partitions = (await Promise.all(shares)).flat().sort()
  assert.deepEqual(partitions, [0, 1, 2, 3])
  await send('first')
  await enough(40)
  const { groups } = await admin.describeGroups([groupId])
  assert.deepEqual([groups[0].state, groups[0].members.length], ['Stable', 2])
  const all = joined(members[1], partitions => partitions.length === 4)
  await members[0].disconnect()
  await all
  await send('second')
  await enough(80)
  await members[1].disconnect()
  const expected = ['first', 'second'].flatMap(word => Array.from({ length: 40 }, (_, i) => `${word} ${i}`))
  assert.deepEqual(read.sort(), expected.sort())
  const [{ partitions: offsets }] = await admin.fetchOffsets({ groupId, topics: [GROUPS_TOPIC] })
  assert.deepEqual(offsets.map(({ offset }) => offset), ['20', '20', '20', '20'])
  await admin.deleteGroups([groupId])
  await producer.disconnect()
}

// One transaction is aborted and one is committed, each with an offset for a group.
async function checkTransactions(kafka, admin) {
  await admin.createTopics({ topics: [{ topic: TARGET_TOPIC, numPartitions: 1 }] })
  const settings = { transactionalId: 'kafkajs-copier', maxInFlightRequests: 1, idempotent: true }
  const producer = kafka.producer({ ...settings, createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const consumerGroupId = 'kafkajs-copiers'
  for (const [ending, offset] of [['abort', '-1'], ['commit', '7']]) {
    const transaction = await producer.transaction()
    await transaction.send({ topic: TARGET_TOPIC, messages: [{ value: `to ${ending}` }] })
    const topics = [{ topic: GROUPS_TOPIC, partitions: [{ partition: 0, offset: '7' }] }]
    await transaction.sendOffsets({ consumerGroupId, topics })
    await transaction[ending]()
    const [{ partitions }] = await admin.fetchOffsets({ groupId: consumerGroupId, topics: [GROUPS_TOPIC] })
    assert.equal(partitions.find(({ partition }) => partition === 0).offset, offset)
  }
  await producer.disconnect()
  const reader = kafka.consumer({ groupId: 'kafkajs-readers', maxWaitTimeInMs: 100 })
  await reader.connect()
  await reader.subscribe({ topic: TARGET_TOPIC, fromBeginning: true })
  assert.deepEqual(await readByGroup(reader, 1), ['to commit'])
  await reader.disconnect()
}

async function main() {
  await addCodecs()
  const retry = { retries: 2 }
  const kafka = new Kafka({ brokers: BROKERS, logLevel: logLevel.ERROR, retry })
  const admin = kafka.admin()
  await admin.connect()
  // The timestamps are old.
  const configEntries = [{ name: 'retention.ms', value: '-1' }]
  const created = await admin.createTopics({ topics: [{ topic: TOPIC, numPartitions: CODECS.length, configEntries }] })
  assert.equal(created, true)

  const logger = createLogger({ level: logLevel.ERROR, logCreator: LoggerConsole })
  const cluster = new Cluster({
    brokers: BROKERS,
    clientId: 'judge',
    connectionTimeout: 10_000,
    requestTimeout: 30_000,
    logger,
    retry,
    socketFactory: socketFactory(),
  })
  await cluster.connect()
  await cluster.addTargetTopic(TOPIC)
  for (const [partition, codec] of CODECS.entries()) {
    const [leader] = Object.keys(cluster.findLeaderForPartitions(TOPIC, [partition]))
    const broker = await cluster.findBroker({ nodeId: leader })
    // Every other producer is idempotent.
    const idempotent = partition % 2 === 0
    const producer = kafka.producer({ idempotent, createPartitioner: Partitioners.DefaultPartitioner })
    await producer.connect()
    await checkCodec(producer, broker, partition, codec)
    await producer.disconnect()
  }
  await cluster.disconnect()

  await checkAdmin(admin)
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const large = producer.send({ topic: TOPIC, messages: [{ partition: 0, value: 'x'.repeat(5_000) }] })
  await assert.rejects(large, { type: 'MESSAGE_TOO_LARGE' })
  await producer.disconnect()
  await checkGroup(kafka, admin)
  await checkTransactions(kafka, admin)
  await admin.deleteTopics({ topics: [TOPIC] })
  assert.equal((await admin.listTopics()).includes(TOPIC), false)
  await admin.disconnect()
  console.log('all as expected')
}

// Time limit of the whole run.
setTimeout(() => {
  console.error('it takes too long')
  process.exit(1)
}, 120_000).unref()

main().catch(error => {
  console.error(error)
  process.exit(1)
})
