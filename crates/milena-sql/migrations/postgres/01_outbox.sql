-- A UUID of version 7: ids rise with time, so that an index of them grows at its end.
CREATE FUNCTION milena_uuid_v7() RETURNS uuid LANGUAGE sql VOLATILE AS $$
    SELECT encode(set_bit(set_bit(overlay(uuid_send(gen_random_uuid())
        PLACING substring(int8send(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint) FROM 3)
        FROM 1 FOR 6), 52, 1), 53, 1), 'hex')::uuid
$$;

-- Events of the application's own transactions, until they are in Kafka. Debezium's EventRouter reads the same columns
-- under its default names.
CREATE TABLE milena_outbox (
    id uuid PRIMARY KEY DEFAULT milena_uuid_v7(),
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

-- Locks all aggregates until the end of the transaction: the other writers of the outbox wait. For a transaction with
-- events of many aggregates, as its first statement.
CREATE FUNCTION milena_outbox_lock() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(1835101294, 0), set_config('milena.outbox_locks', 'all', true);
END
$$;

-- Refuses an event that Kafka would refuse, and that would stop its aggregate then.
CREATE FUNCTION milena_outbox_refuse(event milena_outbox) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    reason text := CASE
        WHEN event.aggregatetype IS NULL OR event.aggregateid IS NULL OR event.type IS NULL OR event.headers IS NULL
            THEN 'aggregatetype, aggregateid, type and headers must not be NULL'
        WHEN octet_length(event.aggregatetype) NOT BETWEEN 1 AND 249 THEN 'aggregatetype must have 1 to 249 bytes'
        WHEN octet_length(event.aggregateid) NOT BETWEEN 1 AND 1024 THEN 'aggregateid must have 1 to 1024 bytes'
        WHEN octet_length(event.type) NOT BETWEEN 1 AND 1024 THEN 'type must have 1 to 1024 bytes'
        WHEN jsonb_typeof(event.headers) <> 'object' OR jsonb_path_exists(event.headers, '$.* ? (@.type() != "string")')
            THEN 'headers must be an object whose values are strings'
        WHEN event.headers ?| ARRAY['id', 'eventType'] THEN 'the headers id and eventType are set by the relay'
        ELSE format('the topic %L is not a name that Kafka accepts: 1 to 249 letters, digits, dots, _ and -',
            coalesce(event.topic, event.aggregatetype || '.events'))
    END;
BEGIN
    RAISE EXCEPTION 'the outbox cannot take this event: %', reason USING ERRCODE = 'check_violation';
END
$$;

-- Sequence numbers are handed out before the commit, so they are not in commit order. The lock on the aggregate, held
-- until the commit, makes them so within an aggregate.
--
-- PostgreSQL has room for some thousand locks of all transactions together. So a transaction that has 256 of them locks
-- all aggregates at once instead, which waits for the other writers; they share a lock for that purpose. The number of
-- locks is a setting that ends with the transaction, and goes back with a savepoint as the locks do.
CREATE FUNCTION milena_outbox_number() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    aggregate bigint := milena_outbox_aggregate(NEW.aggregatetype, NEW.aggregateid);
    locks text := current_setting('milena.outbox_locks', true);
    topic text := coalesce(NEW.topic, NEW.aggregatetype || '.events');
BEGIN
    -- In here because constraints of the table would be parsed for every statement.
    IF (octet_length(NEW.aggregatetype) BETWEEN 1 AND 249 AND octet_length(NEW.aggregateid) BETWEEN 1 AND 1024
        AND octet_length(NEW.type) BETWEEN 1 AND 1024 AND octet_length(topic) BETWEEN 1 AND 249
        AND topic !~ '[^a-zA-Z0-9._-]' AND topic <> '.' AND topic <> '..'
        AND (NEW.headers = '{}' OR jsonb_typeof(NEW.headers) = 'object'
            AND NOT jsonb_path_exists(NEW.headers, '$.* ? (@.type() != "string")')
            AND NOT NEW.headers ?| ARRAY['id', 'eventType'])) IS NOT TRUE THEN
        PERFORM milena_outbox_refuse(NEW);
    END IF;
    IF locks = '256' THEN
        PERFORM milena_outbox_lock();
    ELSIF locks IS DISTINCT FROM 'all' THEN
        PERFORM pg_advisory_xact_lock_shared(1835101294, 0), pg_advisory_xact_lock(aggregate),
            set_config('milena.outbox_locks', (coalesce(nullif(locks, ''), '0')::integer + 1)::text, true);
    END IF;
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
