// kafkajs as an agent: JSON lines in, JSON lines out, as tests/interop/clients/python/line_agent.py describes.

const readline = require('readline')
const {
  AssignerProtocol, CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel, PartitionAssigners,
} = require('kafkajs')
const SnappyCodec = require('kafkajs-snappy')
const { ZstdCodec } = require('zstd-codec')

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => Buffer.from((await zstd()).compress(encoder.buffer)),
  decompress: async buffer => Buffer.from((await zstd()).decompress(buffer)),
})
const zstd = () => new Promise(resolve => ZstdCodec.run(codec => resolve(new codec.Simple())))

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  zstd: CompressionTypes.ZSTD,
}
const text = value => (value === null || value === undefined ? null : value.toString())
const kafka = (servers, clientId = 'agent', retry = { initialRetryTime: 100, retries: 8 }) =>
  new Kafka({ clientId, brokers: servers.split(','), logLevel: logLevel.NOTHING, retry })
const members = new Map()

// Members of other clients know kafkajs's assigner only by the name that Kafka's has.
const ASSIGNERS = {
  roundrobin: options => ({ ...PartitionAssigners.roundRobin(options), name: 'roundrobin' }),
}

function asJson(topic, partition, message) {
  const headers = []
  for (const [key, value] of Object.entries(message.headers || {})) {
    for (const one of Array.isArray(value) ? value : [value]) headers.push([key, text(one)])
  }
  return {
    topic,
    partition,
    offset: Number(message.offset),
    timestamp: Number(message.timestamp),
    key: text(message.key),
    value: text(message.value),
    headers,
  }
}

// kafkajs holds headers as an object, so repeated ones stand together.
function headersOf(record) {
  const headers = {}
  for (const [key, value] of record.headers) {
    headers[key] = key in headers ? [].concat(headers[key], value) : value
  }
  return headers
}

class Member {
  constructor(servers, group, name, assignors) {
    this.records = []
    this.assignment = []
    this.positions = new Map()
    this.consumer = kafka(servers, name).consumer({
      groupId: group,
      sessionTimeout: 6000,
      heartbeatInterval: 300,
      metadataMaxAge: 1000,
      maxWaitTimeInMs: 100,
      ...(assignors.length ? { partitionAssigners: assignors.map(assignor => ASSIGNERS[assignor]) } : {}),
    })
  }

  async start(topics) {
    this.consumer.on(this.consumer.events.GROUP_JOIN, ({ payload }) => {
      this.assignment = []
      for (const [topic, partitions] of Object.entries(payload.memberAssignment)) {
        for (const partition of partitions) this.assignment.push([topic, partition])
      }
      this.positions.clear()
    })
    await this.consumer.connect()
    await this.consumer.subscribe({ topics, fromBeginning: true })
    await this.consumer.run({
      autoCommit: false,
      eachMessage: async ({ topic, partition, message }) => {
        this.records.push(asJson(topic, partition, message))
        this.positions.set(`${topic} ${partition}`, { topic, partition, offset: String(Number(message.offset) + 1) })
      },
    })
  }

  look() {
    const records = this.records
    this.records = []
    return { records, assignment: this.assignment }
  }

  async leave() {
    await this.consumer.disconnect()
  }
}

// Retrying makes no sense of a request better, but kafkajs does it with all but a few errors.
const withAdmin = action => async request => {
  const admin = kafka(request.servers, 'agent', { initialRetryTime: 50, retries: 2 }).admin()
  await admin.connect()
  try {
    return await action(admin, request)
  } finally {
    await admin.disconnect()
  }
}

const operations = {
  // Logs in, produces a record and tells the first that it then reads.
  async over_sasl({ servers, topic, mechanism, user, password }) {
    const client = new Kafka({
      clientId: 'agent',
      brokers: servers.split(','),
      logLevel: logLevel.NOTHING,
      retry: { retries: 2 },
      sasl: { mechanism: mechanism.toLowerCase(), username: user, password },
    })
    const producer = client.producer()
    await producer.connect()
    await producer.send({ topic, messages: [{ partition: 0, value: 'over SASL' }] })
    await producer.disconnect()
    const consumer = client.consumer({ groupId: topic, maxWaitTimeInMs: 100 })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    const value = await new Promise(resolve => {
      consumer.run({ eachMessage: async ({ message }) => resolve(text(message.value)) })
    })
    await consumer.disconnect()
    return [value]
  },

  async produce({ servers, topic, codec, records }) {
    const producer = kafka(servers).producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    try {
      const results = await producer.send({
        topic,
        acks: -1,
        compression: CODECS[codec],
        messages: records.map(record => ({
          partition: record.partition,
          key: record.key,
          value: record.value,
          headers: headersOf(record),
          ...(record.timestamp === null ? {} : { timestamp: String(record.timestamp) }),
        })),
      })
      const next = new Map(results.map(result => [result.partition, Number(result.baseOffset)]))
      return records.map(({ partition }) => {
        const offset = next.get(partition)
        next.set(partition, offset + 1)
        return [partition, offset]
      })
    } finally {
      await producer.disconnect()
    }
  },

  async consume({ servers, topic, counts }) {
    const wanted = Object.values(counts).reduce((sum, count) => sum + count, 0)
    const consumer = kafka(servers).consumer({ groupId: `reader-of-${topic}`, maxWaitTimeInMs: 100 })
    const records = []
    await consumer.connect()
    try {
      await consumer.subscribe({ topic, fromBeginning: true })
      await new Promise((resolve, reject) => {
        consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error))
        consumer.run({
          autoCommit: false,
          eachMessage: async ({ partition, message }) => {
            records.push(asJson(topic, partition, message))
            if (records.length >= wanted) resolve()
          },
        }).catch(reject)
      })
    } finally {
      await consumer.disconnect()
    }
    return records
  },

  async join({ servers, member, group, topics, assignors }) {
    const joined = new Member(servers, group, member, assignors)
    members.set(member, joined)
    await joined.start(topics)
  },

  look: async ({ member }) => members.get(member).look(),

  async commit({ member }) {
    const joined = members.get(member)
    await joined.consumer.commitOffsets([...joined.positions.values()])
  },

  async leave({ member }) {
    const joined = members.get(member)
    members.delete(member)
    await joined.leave()
  },

  committed: withAdmin(async (admin, { group, topic, partitions }) => {
    const [found] = await admin.fetchOffsets({ groupId: group, topics: [topic] })
    const offsets = new Map(found.partitions.map(({ partition, offset }) => [partition, Number(offset)]))
    return Object.fromEntries(partitions.map(partition => {
      const offset = offsets.get(partition)
      return [partition, offset === undefined || offset < 0 ? null : offset]
    }))
  }),

  create_topic: withAdmin(async (admin, { topic, partitions, configs }) => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    const made = await admin.createTopics({
      waitForLeaders: true,
      topics: [{ topic, numPartitions: partitions, configEntries }],
    })
    // That a topic exists is no error to kafkajs.
    if (!made) throw Object.assign(new Error('the topic exists'), { code: 36 })
  }),

  add_partitions: withAdmin((admin, { topic, total }) =>
    admin.createPartitions({ topicPartitions: [{ topic, count: total }] }).then(() => null)),

  delete_topic: withAdmin((admin, { topic }) => admin.deleteTopics({ topics: [topic] }).then(() => null)),

  topics: withAdmin(admin => admin.listTopics()),

  describe_topic: withAdmin(async (admin, { topic }) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] })
    return topics[0].partitions.map(({ partitionId, leader }) => [partitionId, leader])
  }),

  topic_config: withAdmin(async (admin, { topic }) => {
    const { resources } = await admin.describeConfigs({
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic }],
      includeSynonyms: false,
    })
    return Object.fromEntries(resources[0].configEntries.map(entry => [entry.configName, entry.configValue]))
  }),

  // Not incremental: what is not named goes back to its default.
  alter_config: withAdmin(async (admin, { topic, configs }) => {
    const configEntries = Object.entries(configs).map(([name, value]) => ({ name, value }))
    await admin.alterConfigs({
      validateOnly: false,
      resources: [{ type: ConfigResourceTypes.TOPIC, name: topic, configEntries }],
    })
    return null
  }),

  async delete_records(request) {
    await withAdmin(async (admin, { topic, before }) => {
      await admin.fetchTopicOffsets(topic) // kafkajs does not look for the leaders itself
      await admin.deleteTopicRecords({
        topic,
        partitions: Object.entries(before).map(([partition, offset]) => ({
          partition: Number(partition),
          offset: String(offset),
        })),
      })
    })(request)
    // kafkajs does not pass on what the broker answered.
    const { topic, before, servers } = request
    return operations.offsets({ servers, topic, partitions: Object.keys(before).map(Number), at: 'earliest' })
  },

  offsets: withAdmin(async (admin, { topic, partitions, at }) => {
    const limits = await admin.fetchTopicOffsets(topic)
    const low = Object.fromEntries(limits.map(item => [item.partition, Number(item.low)]))
    const high = Object.fromEntries(limits.map(item => [item.partition, Number(item.high)]))
    if (typeof at === 'string') {
      return Object.fromEntries(partitions.map(partition => [partition, { earliest: low, latest: high }[at][partition]]))
    }
    // Where no record is so late, kafkajs has the end instead.
    const found = await admin.fetchTopicOffsetsByTimestamp(topic, at)
    return Object.fromEntries(found.map(({ partition, offset }) =>
      [partition, Number(offset) === high[partition] ? -1 : Number(offset)]))
  }),

  groups: withAdmin(async admin => (await admin.listGroups()).groups.map(({ groupId }) => groupId)),

  describe_group: withAdmin(async (admin, { group }) => {
    const { groups: [{ state, members: found }] } = await admin.describeGroups([group])
    return {
      state,
      members: Object.fromEntries(found.map(member => {
        const decoded = AssignerProtocol.MemberAssignment.decode(member.memberAssignment)
        const assigned = Object.entries(decoded.assignment).flatMap(([topic, numbers]) => numbers.map(n => [topic, n]))
        return [member.clientId, assigned]
      })),
    }
  }),

  delete_group: withAdmin(async (admin, { group }) => {
    try {
      await admin.deleteGroups([group])
    } catch (error) {
      throw error.groups ? Object.assign(error, { code: error.groups[0].errorCode }) : error
    }
    return null
  }),

  alter_offsets: withAdmin((admin, { group, topic, offsets }) => admin.setOffsets({
    groupId: group,
    topic,
    partitions: Object.entries(offsets).map(([partition, offset]) => ({
      partition: Number(partition),
      offset: String(offset),
    })),
  }).then(() => null)),

  brokers: withAdmin(async admin => {
    const { brokers, controller, clusterId } = await admin.describeCluster()
    return { cluster: clusterId, controller, brokers: brokers.map(({ nodeId }) => nodeId).sort() }
  }),
}

// kafkajs wraps errors in errors, and in what it says of parts; the innermost has Kafka's code.
function codeOf(error) {
  if (!error) return null
  if (typeof error.code === 'number') return error.code
  const [part] = error.errors || error.partitions || []
  return codeOf(error.cause) ?? codeOf(part && (part.error || part))
}

async function serve() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    let answer
    try {
      const request = JSON.parse(line)
      answer = { answer: (await operations[request.do](request)) ?? null }
    } catch (error) {
      console.error(error)
      answer = { error: String(error), code: codeOf(error) }
    }
    process.stdout.write(`${JSON.stringify(answer)}\n`)
  }
  process.exit(0)
}

serve()
