-- Events that a group has handled, inserted in the transaction of the effect.
CREATE TABLE milena_processed_events (
    consumer_group text NOT NULL,
    event_id text NOT NULL,
    processed_at integer NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS integer)),
    PRIMARY KEY (consumer_group, event_id)
) WITHOUT ROWID;
CREATE INDEX milena_processed_events_time ON milena_processed_events (processed_at);
