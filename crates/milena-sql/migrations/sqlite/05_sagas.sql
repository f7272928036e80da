-- Sagas as their participants know them. A participant is a service with its steps; several may share a database. A
-- saga that was compensated before it began has a row too: that row refuses the late action. All times are milliseconds
-- since 1970 by the clock of the application.
CREATE TABLE milena_sagas (
    saga_id text NOT NULL,
    saga_type text NOT NULL,
    participant text NOT NULL,
    -- Of the owner: running, completed, compensating, compensated, stuck, closed.
    -- Of other participants: waiting, done, failed, compensated, cancelled.
    status text NOT NULL,
    -- Raised by every change. A change names the version that it has read, and fails if there is a newer one.
    version integer NOT NULL,
    -- State of the steps and timers, as JSON.
    state text NOT NULL,
    -- Time of the earliest timer, or of a command.
    wake_ms integer,
    -- A change by hand that the participant has not performed yet, as JSON.
    command text,
    -- Cause of a compensation, or why the saga is stuck.
    reason text,
    started_ms integer NOT NULL,
    changed_ms integer NOT NULL,
    PRIMARY KEY (saga_id, saga_type, participant)
) WITHOUT ROWID;
CREATE INDEX milena_sagas_open ON milena_sagas (status, started_ms)
    WHERE status IN ('running', 'compensating', 'stuck', 'waiting');
CREATE INDEX milena_sagas_ended ON milena_sagas (status, changed_ms)
    WHERE status IN ('completed', 'compensated', 'closed', 'done', 'failed', 'cancelled');
CREATE INDEX milena_sagas_wake ON milena_sagas (saga_type, participant, wake_ms) WHERE wake_ms IS NOT NULL;

-- One line for each change of a saga.
CREATE TABLE milena_saga_audit (
    saga_id text NOT NULL,
    saga_type text NOT NULL,
    participant text NOT NULL,
    -- Version of the saga after the change.
    version integer NOT NULL,
    at_ms integer NOT NULL,
    -- A user, or the event or timer that caused the change.
    actor text NOT NULL,
    action text NOT NULL,
    reason text,
    PRIMARY KEY (saga_id, saga_type, participant, version)
) WITHOUT ROWID;

-- Events that trigger steps, kept by the owner until the saga ends. It redelivers them when a step does not report.
CREATE TABLE milena_saga_events (
    saga_id text NOT NULL,
    saga_type text NOT NULL,
    participant text NOT NULL,
    event_type text NOT NULL,
    event_id text NOT NULL,
    record_key blob,
    payload blob,
    headers text NOT NULL,
    PRIMARY KEY (saga_id, saga_type, participant, event_type)
) WITHOUT ROWID;
