-- Events that a group has handled, inserted in the transaction of the effect.
CREATE TABLE milena_processed_events (
    consumer_group text NOT NULL,
    event_id text NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, event_id)
);
CREATE INDEX milena_processed_events_time ON milena_processed_events USING brin (processed_at);
