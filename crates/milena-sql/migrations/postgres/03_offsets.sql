-- Offsets of partitions whose effects are in this database. The owner with the highest epoch is the only one whose
-- transactions commit.
CREATE TABLE milena_offsets (
    consumer_group text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    -- A deleted and recreated topic has another id.
    topic_id text,
    epoch bigint NOT NULL,
    -- Name of the owner, for people.
    instance text NOT NULL,
    -- The next offset to read; null until the first owner knows where the partition begins.
    next_offset bigint,
    leader_epoch integer,
    -- Finished offsets above metadata_offset, and the crash guard.
    metadata text NOT NULL DEFAULT '',
    metadata_offset bigint NOT NULL DEFAULT 0,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer_group, topic, partition)
) WITH (fillfactor = 50);
