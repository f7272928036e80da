"""Tests of a broker with confluent-kafka, which is librdkafka with a Python API.

`python confluent.py HOST:PORT`; the broker must have no topic whose name begins with `confluent`.
"""

import sys
import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_INVALID,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

ADDRESS = {"bootstrap.servers": sys.argv[1]}
TOPIC = "confluent"
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
GROUPS_TOPIC = "confluent-groups"
GROUP_VALUES = [f"message {number}" for number in range(40)]
SOURCE_TOPIC = "confluent-source"
TARGET_TOPIC = "confluent-target"
TIMEOUT = 30
START_MS = 1_700_000_000_000


def expect(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")


def records(codec):
    """Records with every optional part null at least once, similar enough to compress."""
    special = [
        ("key", f"by {codec}", [("kind", b"first"), ("kind", b"second"), ("other", b"x")]),
        (None, "without a key", None),
        ("without a value", None, [("null", None), ("empty", b"")]),
        ("", "", [("", b"a header without a name")]),
        ("ключ", "значение", [("название", "имя".encode())]),
    ]
    many = [(f"key {i}", f"letter {i} by {codec} " * 20, [("number", str(i).encode())]) for i in range(300)]
    return special + many


def text(value):
    return None if value is None else value.decode()


def produce(partition, codec, settings):
    """Sends all records and returns the acknowledged offsets."""
    offsets = []

    def delivered(error, message):
        expect(error, None, f"delivery by {codec}")
        offsets.append(message.offset())

    producer = Producer({**ADDRESS, "compression.type": codec, "linger.ms": 20, "acks": "all", **settings})
    for i, (key, value, headers) in enumerate(records(codec)):
        producer.produce(
            TOPIC,
            value,
            key,
            partition=partition,
            headers=headers,
            timestamp=START_MS + i,
            on_delivery=delivered,
        )
    expect(producer.flush(TIMEOUT), 0, f"what {codec} left unsent")
    return offsets


def consume(consumer, partition, offset, topic=TOPIC):
    """All messages from this offset to the end."""
    consumer.assign([TopicPartition(topic, partition, offset)])
    messages = []
    while True:
        message = consumer.poll(TIMEOUT)
        if message is None:
            sys.exit(f"partition {partition} has no end")
        if message.error() is None:
            messages.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            return messages
        else:
            raise KafkaException(message.error())


def check_codec(consumer, partition, codec):
    sent = records(codec)
    settings = {"enable.idempotence": True} if partition % 2 == 0 else {"batch.num.messages": 70}
    expect(produce(partition, codec, settings), list(range(len(sent))), f"offsets by {codec}")
    read = consume(consumer, partition, OFFSET_BEGINNING)
    found = [(m.offset(), m.timestamp()[1], text(m.key()), text(m.value()), m.headers()) for m in read]
    expected = [(i, START_MS + i, *record) for i, record in enumerate(sent)]
    expect(len(found), len(expected), f"how many came by {codec}")
    for one, other in zip(found, expected):
        expect(one, other, f"a record by {codec}")
    # Starts in the middle of a batch.
    expect([m.offset() for m in consume(consumer, partition, 123)], list(range(123, len(sent))), f"middle of {codec}")


def check_offsets(consumer, partition):
    count = len(records("none"))
    where = TopicPartition(TOPIC, partition)
    expect(consumer.get_watermark_offsets(where, TIMEOUT), (0, count), "watermarks")
    for time, offset in [(0, 0), (START_MS + 200, 200), (START_MS + count, -1)]:
        [found] = consumer.offsets_for_times([TopicPartition(TOPIC, partition, time)], TIMEOUT)
        expect((found.error, found.offset), (None, offset), f"offset for time {time}")


def check_admin(admin, consumer, partition):
    count = len(records("none"))
    where = TopicPartition(TOPIC, partition)

    def listed(spec):
        return admin.list_offsets({where: spec}, request_timeout=TIMEOUT)[where].result().offset

    expect(listed(OffsetSpec.earliest()), 0, "earliest offset")
    expect(listed(OffsetSpec.latest()), count, "latest offset")
    expect(listed(OffsetSpec.max_timestamp()), count - 1, "offset of the greatest timestamp")
    expect(listed(OffsetSpec.for_timestamp(START_MS + 7)), 7, "offset for a timestamp")

    cut = TopicPartition(TOPIC, partition, 100)
    expect(admin.delete_records([cut])[cut].result().low_watermark, 100, "low watermark after deleting")
    expect(consumer.get_watermark_offsets(where, TIMEOUT), (100, count), "watermarks after deleting")
    # A deleted offset resets the consumer to the log start offset.
    expect([m.offset() for m in consume(consumer, partition, 0)], list(range(100, count)), "records after deleting")

    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    resource.add_incremental_config(
        ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET)
    )
    admin.incremental_alter_configs([resource])[resource].result()
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    described = admin.describe_configs([resource])[resource].result()
    expect(described["max.message.bytes"].value, "2000", "an altered setting")
    admin.create_partitions([NewPartitions(TOPIC, len(CODECS) + 1)])[TOPIC].result()
    partitions = admin.list_topics(TOPIC, TIMEOUT).topics[TOPIC].partitions
    expect(sorted(partitions), list(range(len(CODECS) + 1)), "partitions")


def check_refusal():
    """A record larger than max.message.bytes is rejected with the right error."""
    errors = []
    producer = Producer(ADDRESS)
    producer.produce(TOPIC, "x" * 5_000, partition=0, on_delivery=lambda error, _: errors.append(error))
    expect(producer.flush(TIMEOUT), 0, "what was left unsent")
    expect([error.code() for error in errors], [KafkaError.MSG_SIZE_TOO_LARGE], "errors for a large record")


def committed(consumer, partitions):
    wanted = [TopicPartition(GROUPS_TOPIC, partition) for partition in range(partitions)]
    return [found.offset for found in consumer.committed(wanted, TIMEOUT)]


def read_until(consumers, count):
    """Polls members in turn until they have this many messages in total; returns values by member."""
    read = [[] for _ in consumers]
    deadline = time.monotonic() + 2 * TIMEOUT
    while sum(map(len, read)) < count:
        if time.monotonic() > deadline:
            sys.exit(f"members read {read}, not {count} messages")
        for values, consumer in zip(read, consumers):
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                values.append(text(message.value()))
            elif message is not None:
                raise KafkaException(message.error())
    return read


def seek_to_start(member, partition, deadline):
    # librdkafka refuses to seek in a partition that it was just assigned and has not begun to fetch.
    while True:
        try:
            return member.seek(TopicPartition(GROUPS_TOPIC, partition, 0))
        except KafkaException as error:
            if error.args[0].code() != KafkaError._STATE or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def check_group(admin, protocol, settings):
    """Two members share a topic; one leaves, and the other continues at the committed offsets."""
    group = {
        **ADDRESS,
        **settings,
        "group.id": f"group-{protocol}",
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 20,
    }
    members = [Consumer(group), Consumer(group)]
    for member in members:
        member.subscribe([GROUPS_TOPIC])
    deadline = time.monotonic() + 2 * TIMEOUT
    # Reading starts when both have partitions, so that each message has one owner.
    while sorted(len(member.assignment()) for member in members) != [2, 2]:
        if time.monotonic() > deadline:
            sys.exit(f"{protocol}: assignments {[member.assignment() for member in members]}")
        for member in members:
            message = member.poll(0.05)
            if message is not None and message.error() is None:
                member.seek(TopicPartition(GROUPS_TOPIC, message.partition(), 0))
    owned = [{found.partition for found in member.assignment()} for member in members]
    expect(owned[0] | owned[1], set(range(4)), f"{protocol}: partitions of both")
    for member in members:
        for partition in member.assignment():
            seek_to_start(member, partition.partition, deadline)
    read = read_until(members, len(GROUP_VALUES))
    expect(sorted(sum(read, [])), sorted(GROUP_VALUES), f"{protocol}: what both read")
    for member in members:
        member.commit(asynchronous=False)
    expect(sum(committed(members[0], 4)), len(GROUP_VALUES), f"{protocol}: committed offsets")

    [described] = [future.result() for future in admin.describe_consumer_groups([group["group.id"]]).values()]
    expect((described.state.name, len(described.members)), ("STABLE", 2), f"{protocol}: the described group")
    members[0].close()
    producer = Producer(ADDRESS)
    for partition in range(4):
        producer.produce(GROUPS_TOPIC, f"later {partition}", partition=partition)
    expect(producer.flush(TIMEOUT), 0, "what was left unsent")
    [rest] = read_until(members[1:], 4)
    expect(sorted(rest), [f"later {partition}" for partition in range(4)], f"{protocol}: what the last one read")
    members[1].close()
    admin.delete_consumer_groups([group["group.id"]])[group["group.id"]].result()


def check_groups(admin):
    cooperative = {"partition.assignment.strategy": "cooperative-sticky"}
    for protocol, settings in [("classic", cooperative), ("consumer", {})]:
        admin.create_topics([NewTopic(GROUPS_TOPIC, 4, 1)])[GROUPS_TOPIC].result()
        producer = Producer(ADDRESS)
        for number, value in enumerate(GROUP_VALUES):
            producer.produce(GROUPS_TOPIC, value, partition=number % 4)
        expect(producer.flush(TIMEOUT), 0, "what was left unsent")
        check_group(admin, protocol, settings)
        admin.delete_topics([GROUPS_TOPIC])[GROUPS_TOPIC].result()


def check_transactions(admin):
    """One transaction is aborted and one committed with its offsets; an older producer is fenced."""
    for topic in [SOURCE_TOPIC, TARGET_TOPIC]:
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    producer = Producer(ADDRESS)
    for number in range(10):
        producer.produce(SOURCE_TOPIC, f"message {number}")
    expect(producer.flush(TIMEOUT), 0, "what was left unsent")
    settings = {
        **ADDRESS,
        "group.id": "copiers",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
    }
    consumer = Consumer({**settings, "enable.partition.eof": False})
    consumer.subscribe([SOURCE_TOPIC])
    read = []
    while len(read) < 10:
        message = consumer.poll(TIMEOUT)
        expect(message is not None and message.error() is None, True, f"a message after {read}")
        read.append(text(message.value()))
    transactional = {**ADDRESS, "transactional.id": "copier"}
    older = Producer(transactional)
    older.init_transactions(TIMEOUT)
    for ending in ["abort", "commit"]:
        older.begin_transaction()
        for value in read:
            older.produce(TARGET_TOPIC, f"{value} to {ending}")
        positions = consumer.position([TopicPartition(SOURCE_TOPIC, 0)])
        older.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), TIMEOUT)
        where = [TopicPartition(SOURCE_TOPIC, 0)]
        if ending == "abort":
            older.abort_transaction(TIMEOUT)
            expect(consumer.committed(where, TIMEOUT)[0].offset, OFFSET_INVALID, "offset after an abort")
        else:
            older.commit_transaction(TIMEOUT)
            expect(consumer.committed(where, TIMEOUT)[0].offset, 10, "offset after a commit")
    consumer.close()

    older.begin_transaction()
    older.produce(TARGET_TOPIC, "left open")
    older.flush(TIMEOUT)
    Producer(transactional).init_transactions(TIMEOUT)
    try:
        older.commit_transaction(TIMEOUT)
        sys.exit("a fenced producer has committed")
    except KafkaException as error:
        expect(error.args[0].code(), KafkaError._FENCED, "the error of a fenced producer")
    reader = Consumer(settings)
    found = [text(message.value()) for message in consume(reader, 0, OFFSET_BEGINNING, TARGET_TOPIC)]
    reader.close()
    expect(found, [f"{value} to commit" for value in read], "what was committed")


def main():
    admin = AdminClient(ADDRESS)
    # The timestamps are old.
    forever = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(TOPIC, len(CODECS), 1, config=forever)])[TOPIC].result()
    # Other requests queue behind a waiting fetch.
    settings = {
        "group.id": "unused",
        "enable.auto.commit": False,
        "enable.partition.eof": True,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 20,
    }
    consumer = Consumer({**ADDRESS, **settings})
    for partition, codec in enumerate(CODECS):
        check_codec(consumer, partition, codec)
        check_offsets(consumer, partition)
    check_admin(admin, consumer, 3)
    consumer.close()
    check_refusal()
    check_groups(admin)
    check_transactions(admin)
    admin.delete_topics([TOPIC])[TOPIC].result()
    expect(TOPIC in admin.list_topics(timeout=TIMEOUT).topics, False, "the deleted topic is listed")
    print("all as expected")


main()
