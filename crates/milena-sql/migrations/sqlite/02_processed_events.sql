-- Events that a handler of a group has handled, inserted in the transaction of the effect.
CREATE TABLE milena_processed_events (
    consumer_group text NOT NULL,
    -- Topic or pattern of the handler: an event may be in the topics of several.
    handler text NOT NULL,
    event_id text NOT NULL,
    processed_at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer)),
    PRIMARY KEY (consumer_group, handler, event_id)
) WITHOUT ROWID;
CREATE INDEX milena_processed_events_time ON milena_processed_events (processed_at);
