"""Logs in to a secured broker with confluent-kafka, which is librdkafka, in all the ways that a file lists.

`secured.py talk FILE` writes and reads records. `secured.py refused FILE` expects errors of authentication.
`secured.py stay FILE SECONDS` writes and reads all the time, over several sessions of a connection.
"""

import json
import sys
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

TIMEOUT = 30
COUNT = 20


def settings(login):
    """The configs of librdkafka for a log-in."""
    found = {"bootstrap.servers": login["brokers"], "security.protocol": login["protocol"]}
    names = {
        "ca": "ssl.ca.location",
        "certificate": "ssl.certificate.location",
        "key": "ssl.key.location",
        "mechanism": "sasl.mechanism",
    }
    found.update({config: login[name] for name, config in names.items() if login.get(name)})
    if login.get("mechanism") == "OAUTHBEARER":
        found["sasl.oauthbearer.method"] = "oidc"
        found["sasl.oauthbearer.client.id"] = login["user"]
        found["sasl.oauthbearer.client.secret"] = login["password"]
        found["sasl.oauthbearer.token.endpoint.url"] = login["token_url"]
    elif login.get("mechanism"):
        found["sasl.username"] = login["user"]
        found["sasl.password"] = login["password"]
    return found


def fail(login, problem):
    sys.exit(f"{login['name']}: {problem}")


def delivered(login, offsets):
    def callback(error, message):
        if error is not None:
            fail(login, f"delivery: {error}")
        offsets.append(message.offset())

    return callback


def reader(login, topic, **more):
    consumer = Consumer({
        **settings(login),
        "group.id": topic,
        "auto.offset.reset": "earliest",
        "fetch.wait.max.ms": 50,
        **more,
    })
    consumer.subscribe([topic])
    return consumer


def talk(login):
    topic = f"letters-confluent-{login['name']}"
    admin = AdminClient(settings(login))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT)
    sent = [f"letter {number} by {login['name']}" for number in range(COUNT)]
    offsets = []
    producer = Producer({**settings(login), "acks": "all"})
    for value in sent:
        producer.produce(topic, value, on_delivery=delivered(login, offsets))
    if producer.flush(TIMEOUT) != 0 or offsets != list(range(COUNT)):
        fail(login, f"acknowledged {offsets}")
    consumer = reader(login, topic)
    read = []
    deadline = time.monotonic() + TIMEOUT
    while len(read) < COUNT and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None and message.error() is not None:
            raise KafkaException(message.error())
        if message is not None:
            read.append(message.value().decode())
    consumer.close()
    if read != sent:
        fail(login, f"read {read}")
    print(f"talked {login['name']}")


def is_refusal(error):
    """Whether the broker has refused the log-in. librdkafka has no code for alerts after the handshake of TLS 1.3."""
    return error.code() in [KafkaError._AUTHENTICATION, KafkaError._SSL] or "alert" in error.str()


def refused(login):
    errors = []
    producer = Producer({**settings(login), "error_cb": errors.append, "log_level": 0})
    deadline = time.monotonic() + TIMEOUT
    while not any(map(is_refusal, errors)):
        if time.monotonic() > deadline:
            fail(login, f"errors {errors[:5]}")
        producer.poll(0.1)
    first = next(filter(is_refusal, errors))
    print(f"refused {login['name']}: {first.name()}: {first.str()}")


def stay(login, seconds):
    topic = f"letters-confluent-stay-{login['name']}"
    errors = []
    watched = {"error_cb": errors.append}
    admin = AdminClient(settings(login))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(TIMEOUT)
    offsets = []
    producer = Producer({**settings(login), **watched, "linger.ms": 0})
    consumer = reader(login, topic, **watched)
    end = time.monotonic() + seconds
    sent, read = 0, []
    while time.monotonic() < end or len(read) < sent:
        if time.monotonic() > end + TIMEOUT:
            fail(login, f"read {len(read)} of {sent}; errors {errors}")
        if time.monotonic() < end:
            producer.produce(topic, str(sent), on_delivery=delivered(login, offsets))
            sent += 1
        producer.poll(0)
        time.sleep(0.02)
        message = consumer.poll(0)
        if message is not None and message.error() is not None:
            raise KafkaException(message.error())
        if message is not None:
            read.append(int(message.value()))
    if producer.flush(TIMEOUT) != 0 or offsets != list(range(sent)) or read != list(range(sent)) or errors:
        fail(login, f"sent {sent}, acknowledged {len(offsets)}, read {len(read)}, errors {errors}")
    consumer.close()
    print(f"stayed {login['name']}: {sent} records")


def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        logins = json.load(file)
    for login in logins:
        match sys.argv[1]:
            case "talk":
                talk(login)
            case "refused":
                refused(login)
            case "stay":
                stay(login, float(sys.argv[3]))


main()
