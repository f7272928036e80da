-- Events of the application's own transactions, until they are in Kafka. SQLite has one writer at a time, so sequence
-- numbers are in commit order.
CREATE TABLE milena_outbox (
    sequence integer PRIMARY KEY AUTOINCREMENT,
    id text NOT NULL UNIQUE DEFAULT (lower(hex(randomblob(4))) || '-' || lower(hex(randomblob(2))) || '-4' ||
        substr(lower(hex(randomblob(2))), 2) || '-a' || substr(lower(hex(randomblob(2))), 2) || '-' ||
        lower(hex(randomblob(6)))),
    aggregatetype text NOT NULL,
    aggregateid text NOT NULL,
    type text NOT NULL,
    payload blob,
    -- Further headers, as {"name": "value"}.
    headers text NOT NULL DEFAULT '{}',
    -- NULL is <aggregatetype>.events.
    topic text,
    created_at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer)),
    published_at integer,
    attempts integer NOT NULL DEFAULT 0,
    last_error text
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
