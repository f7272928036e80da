"""A broker before confluent-kafka, which is librdkafka with Python's types: every answer is judged on this side.

`python confluent.py HOST:PORT`; the broker must have no topic `confluent`.
"""

import sys

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
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
TIMEOUT = 30
START_MS = 1_700_000_000_000


def expect(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: found {found!r}, expected {expected!r}")


def records(codec):
    """Key, value and headers: all that can be null is so once, and enough like each other to be worth compressing."""
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
    """Sends all records and gives the offsets that were acknowledged."""
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


def consume(consumer, partition, offset):
    """All messages from this offset to the end."""
    consumer.assign([TopicPartition(TOPIC, partition, offset)])
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
    # From the middle of a batch on.
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
    # The offset that is gone makes the consumer begin with the first that is left.
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
    """What is larger than the topic allows is refused, and the error is the one that says so."""
    errors = []
    producer = Producer(ADDRESS)
    producer.produce(TOPIC, "x" * 5_000, partition=0, on_delivery=lambda error, _: errors.append(error))
    expect(producer.flush(TIMEOUT), 0, "what was left unsent")
    expect([error.code() for error in errors], [KafkaError.MSG_SIZE_TOO_LARGE], "errors for a large record")


def main():
    admin = AdminClient(ADDRESS)
    # The timestamps are old.
    forever = {"retention.ms": "-1"}
    admin.create_topics([NewTopic(TOPIC, len(CODECS), 1, config=forever)])[TOPIC].result()
    # Other requests wait behind a fetch that waits.
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
    admin.delete_topics([TOPIC])[TOPIC].result()
    expect(TOPIC in admin.list_topics(timeout=TIMEOUT).topics, False, "the deleted topic is listed")
    print("all as expected")


main()
