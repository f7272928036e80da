-- Events of the application's own transactions, until they are in Kafka. SQLite has one writer at a time, so sequence
-- numbers are in commit order. The constraints keep out events that Kafka would refuse and that would stop their
-- aggregate.
CREATE TABLE milena_outbox (
    sequence integer PRIMARY KEY AUTOINCREMENT,
    -- A UUID of version 7.
    id text NOT NULL UNIQUE DEFAULT (printf('%08x-%04x-7%03x-%04x-%012x',
        CAST((julianday('now') - 2440587.5) * 86400000 AS integer) >> 16,
        CAST((julianday('now') - 2440587.5) * 86400000 AS integer) & 65535,
        random() & 4095, 32768 | (random() & 16383), random() & 281474976710655)),
    aggregatetype text NOT NULL
        CONSTRAINT milena_outbox_aggregatetype_length CHECK (length(CAST(aggregatetype AS blob)) BETWEEN 1 AND 249),
    aggregateid text NOT NULL
        CONSTRAINT milena_outbox_aggregateid_length CHECK (length(CAST(aggregateid AS blob)) BETWEEN 1 AND 1024),
    type text NOT NULL
        CONSTRAINT milena_outbox_type_length CHECK (length(CAST(type AS blob)) BETWEEN 1 AND 1024),
    payload blob,
    -- Further headers, as {"name": "value"}.
    headers text NOT NULL DEFAULT '{}'
        CONSTRAINT milena_outbox_headers_are_json CHECK (json_valid(headers) AND json_type(headers) = 'object')
        CONSTRAINT milena_outbox_headers_id_and_eventtype_are_reserved
        CHECK (json_type(headers, '$.id') IS NULL AND json_type(headers, '$.eventType') IS NULL),
    -- NULL is <aggregatetype>.events.
    topic text,
    created_at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer)),
    published_at integer,
    attempts integer NOT NULL DEFAULT 0,
    last_error text,
    CONSTRAINT milena_outbox_topic_is_a_name_of_kafka CHECK (
        length(coalesce(topic, aggregatetype || '.events')) BETWEEN 1 AND 249
        AND coalesce(topic, aggregatetype) NOT GLOB '*[^a-zA-Z0-9._-]*' AND topic NOT IN ('.', '..'))
);
CREATE INDEX milena_outbox_unpublished ON milena_outbox (sequence) WHERE published_at IS NULL;
CREATE INDEX milena_outbox_published ON milena_outbox (published_at) WHERE published_at IS NOT NULL;

-- Leases of relays: SQLite has one slot. The epoch grows whenever it gets another owner.
CREATE TABLE milena_outbox_slots (
    slot integer PRIMARY KEY,
    owner text,
    epoch integer NOT NULL DEFAULT 0,
    expires_at integer
);
INSERT INTO milena_outbox_slots (slot) VALUES (0);

-- Relays that live, also those without a slot.
CREATE TABLE milena_outbox_relays (
    owner text PRIMARY KEY,
    expires_at integer NOT NULL
) WITHOUT ROWID;
