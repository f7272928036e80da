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

-- Leases of relays.
CREATE TABLE milena_outbox_slots (
    slot smallint PRIMARY KEY,
    owner text,
    epoch bigint NOT NULL DEFAULT 0,
    expires_at timestamptz
);
INSERT INTO milena_outbox_slots (slot) SELECT generate_series(0, 255);
