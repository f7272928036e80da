import json
import sys

import psycopg

INSERT_ORDER = "INSERT INTO orders (id, cents) VALUES (%s, %s)"
INSERT_EVENT = """INSERT INTO milena_outbox (aggregatetype, aggregateid, type, payload)
    VALUES ('orders', %s, 'OrderPlaced', %s)"""


def place(connection, order, cents):
    if cents <= 0:
        raise ValueError(f"order {order} must cost something")
    payload = json.dumps({"order": order, "cents": cents}).encode()
    # One transaction: both rows are committed, or none of them.
    with connection.transaction():
        connection.execute(INSERT_ORDER, (order, cents))
        connection.execute(INSERT_EVENT, (order, payload))


with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, cents integer)")
    for line in sys.stdin:
        order, cents = line.split()
        try:
            place(connection, order, int(cents))
        except (ValueError, psycopg.errors.UniqueViolation) as error:
            print(f"order {order} refused: {error}")
