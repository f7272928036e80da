-- Events of the application's own transactions, until they are in Kafka. Debezium's EventRouter reads the same columns
-- under its default names.
CREATE TABLE milena_outbox (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    aggregatetype text NOT NULL,
    aggregateid text NOT NULL,
    type text NOT NULL,
    payload bytea,
    -- Further headers, as {"name": "value"}.
    headers jsonb NOT NULL DEFAULT '{}',
    -- NULL is <aggregatetype>.events.
    topic text,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Set by the trigger below, never by the writer.
    sequence bigint NOT NULL,
    -- Part of the table that one relay publishes at a time, from the aggregate.
    slot smallint NOT NULL,
    published_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_error text
);

CREATE SEQUENCE milena_outbox_sequence OWNED BY milena_outbox.sequence CACHE 1;
CREATE INDEX milena_outbox_unpublished ON milena_outbox (sequence) WHERE published_at IS NULL;
CREATE INDEX milena_outbox_published ON milena_outbox (published_at) WHERE published_at IS NOT NULL;

-- Identity of an aggregate: its lock, and its slot.
CREATE FUNCTION milena_outbox_aggregate(aggregatetype text, aggregateid text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT hashtextextended(aggregatetype || chr(1) || aggregateid, 0)
$$;

-- Sequence numbers are handed out before the commit, so they are not in commit order. The lock on the aggregate, held
-- until the commit, makes them so within an aggregate.
CREATE FUNCTION milena_outbox_number() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    aggregate bigint := milena_outbox_aggregate(NEW.aggregatetype, NEW.aggregateid);
BEGIN
    PERFORM pg_advisory_xact_lock(aggregate);
    NEW.sequence := nextval('milena_outbox_sequence');
    NEW.slot := aggregate & 255;
    RETURN NEW;
END
$$;
CREATE TRIGGER milena_outbox_number BEFORE INSERT ON milena_outbox
    FOR EACH ROW EXECUTE FUNCTION milena_outbox_number();

-- Wakes the relay of a slot, if it sleeps. NOTIFY takes a lock of the whole database until the commit is durable, so
-- that notifying transactions commit one after the other. A relay therefore holds the lock of each of its slots while it
-- sleeps, and only then writers notify. A writer that finds the relay awake keeps it awake until its own commit, by
-- sharing the lock: so no commit is missed.
CREATE FUNCTION milena_outbox_wake() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(1835101295, NEW.slot) THEN
        NOTIFY milena_outbox;
    END IF;
    RETURN NEW;
END
$$;
-- Triggers fire in the order of their names, so the row has its slot.
CREATE TRIGGER milena_outbox_wake BEFORE INSERT ON milena_outbox
    FOR EACH ROW EXECUTE FUNCTION milena_outbox_wake();

-- Leases of relays. The epoch grows whenever a slot gets another owner.
CREATE TABLE milena_outbox_slots (
    slot smallint PRIMARY KEY,
    owner text,
    epoch bigint NOT NULL DEFAULT 0,
    expires_at timestamptz
);
INSERT INTO milena_outbox_slots (slot) SELECT generate_series(0, 255);

-- Relays that live, also those without a slot.
CREATE TABLE milena_outbox_relays (
    owner text PRIMARY KEY,
    expires_at timestamptz NOT NULL
);
