// Logs in to a secured broker with KafkaJS, in all the ways that a file lists.
//
// `node secured.js talk FILE` writes and reads records. `node secured.js refused FILE` expects errors of authentication.
// `node secured.js stay FILE SECONDS` writes and reads all the time, over several sessions of a connection.

const assert = require('node:assert/strict')
const fs = require('node:fs')
const { Kafka, logLevel } = require('kafkajs')

const TIMEOUT_MS = 30_000
const COUNT = 20

async function token({ token_url, user, password }) {
  const authorization = `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
  const response = await fetch(token_url, {
    method: 'POST',
    headers: { authorization, 'content-type': 'application/x-www-form-urlencoded' },
    body: 'grant_type=client_credentials',
  })
  const body = await response.json()
  assert.ok(response.ok, JSON.stringify(body))
  return { value: body.access_token }
}

function sasl(login) {
  if (!login.mechanism) return undefined
  const mechanism = login.mechanism.toLowerCase()
  if (mechanism === 'oauthbearer') return { mechanism, oauthBearerProvider: () => token(login) }
  return { mechanism, username: login.user, password: login.password }
}

function ssl(login) {
  if (!login.protocol.endsWith('SSL')) return undefined
  const read = name => (login[name] ? fs.readFileSync(login[name], 'utf8') : undefined)
  return { ca: [read('ca')], cert: read('certificate'), key: read('key') }
}

function client(login, more = {}) {
  return new Kafka({
    brokers: [login.brokers],
    clientId: 'judge',
    sasl: sasl(login),
    ssl: ssl(login),
    // Its default is longer than the sessions of these tests.
    reauthenticationThreshold: 1_500,
    logLevel: logLevel.ERROR,
    ...more,
  })
}

async function create(kafka, topic) {
  const admin = kafka.admin()
  await admin.connect()
  await admin.createTopics({ topics: [{ topic, numPartitions: 1, replicationFactor: 1 }] })
  await admin.disconnect()
}

// Calls `handle` for each value of the topic; returns a function that ends the consumer.
async function read(kafka, topic, handle) {
  const consumer = kafka.consumer({ groupId: topic, maxWaitTimeInMs: 50 })
  const crashed = new Promise((_, reject) => consumer.on(consumer.events.CRASH, event => reject(event.payload.error)))
  crashed.catch(() => {})
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({ eachMessage: async ({ message }) => handle(message.value.toString()) })
  return { end: () => consumer.disconnect(), crashed }
}

const sleep = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds))

async function until(condition, crashed, what) {
  const deadline = Date.now() + TIMEOUT_MS
  while (!condition()) {
    assert.ok(Date.now() < deadline, what())
    await Promise.race([sleep(20), crashed])
  }
}

async function talk(login) {
  const kafka = client(login)
  const topic = `letters-kafkajs-${login.name}`
  await create(kafka, topic)
  const sent = Array.from({ length: COUNT }, (_, number) => `letter ${number} by ${login.name}`)
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic, acks: -1, messages: sent.map(value => ({ value })) })
  await producer.disconnect()
  const found = []
  const reading = await read(kafka, topic, value => found.push(value))
  await until(() => found.length >= COUNT, reading.crashed, () => `${login.name}: read ${found}`)
  await reading.end()
  assert.deepEqual(found, sent)
  console.log(`talked ${login.name}`)
}

async function refused(login) {
  const kafka = client(login, { retry: { retries: 0 }, logLevel: logLevel.NOTHING })
  const admin = kafka.admin()
  try {
    await admin.connect()
    // KafkaJS takes the broker's reply to a bad token for success; the next request fails.
    await admin.describeCluster()
  } catch (error) {
    // KafkaJS wraps the error of the last attempt.
    const cause = error.cause || error
    console.log(`refused ${login.name}: ${cause.name}: ${cause.message.trim()}`)
    return
  }
  assert.fail(`${login.name} was not refused`)
}

async function stay(login, seconds) {
  const kafka = client(login, { retry: { retries: 0 } })
  const topic = `letters-kafkajs-stay-${login.name}`
  await create(kafka, topic)
  const producer = kafka.producer()
  await producer.connect()
  const found = []
  const reading = await read(kafka, topic, value => found.push(Number(value)))
  const end = Date.now() + seconds * 1000
  let sent = 0
  while (Date.now() < end) {
    const [metadata] = await producer.send({ topic, messages: [{ value: `${sent}` }] })
    assert.equal(metadata.baseOffset, `${sent}`)
    sent += 1
    await Promise.race([sleep(20), reading.crashed])
  }
  await until(() => found.length >= sent, reading.crashed, () => `${login.name}: read ${found.length} of ${sent}`)
  await reading.end()
  await producer.disconnect()
  assert.deepEqual(found, Array.from({ length: sent }, (_, number) => number))
  console.log(`stayed ${login.name}: ${sent} records`)
}

async function main() {
  const [mode, file, seconds] = process.argv.slice(2)
  for (const login of JSON.parse(fs.readFileSync(file, 'utf8'))) {
    await { talk, refused, stay }[mode](login, Number(seconds))
  }
}

main().then(
  () => process.exit(0),
  error => {
    console.error(error)
    process.exit(1)
  },
)
