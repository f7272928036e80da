-- Events that a handler of a group has handled, inserted in the transaction of the effect.
CREATE TABLE milena_processed_events (
    consumer_group text NOT NULL,
    -- Topic or pattern of the handler: an event may be in the topics of several.
    handler text NOT NULL,
    event_id text NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, handler, event_id)
);
CREATE INDEX milena_processed_events_time ON milena_processed_events USING brin (processed_at);
