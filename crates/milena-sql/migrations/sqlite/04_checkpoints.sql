-- Snapshots of projections: the state of a partition, and the offset of the first record that is not in it.
CREATE TABLE milena_checkpoints (
    projection text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    next_offset integer NOT NULL,
    state_bytes integer NOT NULL,
    saved_at text NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (projection, topic, partition)
);

-- The state in parts, because a value of SQLite has at most 1 GB.
CREATE TABLE milena_checkpoint_parts (
    projection text NOT NULL,
    topic text NOT NULL,
    partition integer NOT NULL,
    number integer NOT NULL,
    bytes blob NOT NULL,
    PRIMARY KEY (projection, topic, partition, number),
    FOREIGN KEY (projection, topic, partition) REFERENCES milena_checkpoints ON DELETE CASCADE
);
