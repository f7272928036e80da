//! Timers and commands of sagas: a task that performs those that are due.
//!
//! Several instances share the timers. Each change locks its saga; an instance passes over sagas that others have locked.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use milena_app::{
    Clock,
    background::{Background, BackgroundContext, BackgroundFuture, BackgroundStop},
    handler::Fault,
};

use super::{
    Participant,
    call::TransactionHolder,
    change::{ChangeError, SagaChange, Trigger},
    command::PendingCommand,
    driver::SagaDriver,
    store,
};
use crate::once::{begin_on, fault};

/// Wait after an error.
const AFTER_ERROR_MS: i64 = 1_000;
/// Time between two counts of open sagas.
const COUNT_MS: i64 = 15_000;
/// Time between two deletions of ended sagas.
const CLEAN_MS: i64 = 3_600_000;
/// Ended sagas that one transaction deletes.
const CLEAN_BATCH: u32 = 500;

/// The timers, before their application starts.
pub(crate) struct SagaTimers {
    driver: Arc<SagaDriver>,
}

impl SagaTimers {
    pub(crate) fn new(driver: Arc<SagaDriver>) -> Self {
        Self { driver }
    }
}

impl Background for SagaTimers {
    fn name(&self) -> &str {
        "saga-timers"
    }

    /// Finds out at start whether the tables exist.
    fn check(&self) -> BackgroundFuture {
        let driver = Arc::clone(&self.driver);
        Box::pin(async move {
            let mut transaction = driver.sagas.database.begin_read().await?;
            let open = store::count_open(transaction.connection()).await?;
            driver.sagas.metrics.set_open(open);
            Ok(())
        })
    }

    fn run(&self, context: BackgroundContext) -> BackgroundFuture {
        let now_ms = context.clock.now_ms();
        self.driver.sagas.metrics.set_clock(context.clock.clone());
        let timers = TimerTask {
            driver: Arc::clone(&self.driver),
            clock: context.clock,
            count_ms: AtomicI64::new(now_ms.saturating_add(COUNT_MS)),
            clean_ms: AtomicI64::new(now_ms),
        };
        Box::pin(async move {
            timers.run(context.stop).await;
            Ok(())
        })
    }

    fn write_metrics(&self, text: &mut String) {
        self.driver.sagas.metrics.write(text);
    }
}

struct TimerTask {
    driver: Arc<SagaDriver>,
    clock: Clock,
    count_ms: AtomicI64,
    clean_ms: AtomicI64,
}

impl TimerTask {
    async fn run(self, mut stop: BackgroundStop) {
        loop {
            // A change that is interrupted is rolled back.
            let performed = tokio::select! {
                performed = self.perform_due() => performed,
                () = stop.requested() => return,
            };
            let next_ms = match performed {
                Ok(next_ms) => next_ms,
                Err(error) => {
                    tracing::warn!(event = "saga_timers_failed", %error, "timers of sagas wait 1 s: {error}");
                    self.clock.now_ms().saturating_add(AFTER_ERROR_MS)
                }
            };
            tokio::select! {
                () = self.clock.sleep_until(next_ms) => {}
                () = self.driver.wakeup.notified() => {}
                () = stop.requested() => return,
            }
        }
    }

    /// Performs the timers and commands that are due. Returns the time of the next look.
    async fn perform_due(&self) -> Result<i64, Fault> {
        let sagas = &self.driver.sagas;
        let poll_ms = i64::try_from(sagas.poll_interval.as_millis()).unwrap_or(i64::MAX);
        let mut next_ms = self.clock.now_ms().saturating_add(poll_ms);
        for participant in sagas.participants.iter().filter(|participant| participant.is_owner()) {
            loop {
                let Some(wake_ms) = self.next_wake(participant).await? else {
                    break;
                };
                if wake_ms > self.clock.now_ms() {
                    next_ms = next_ms.min(wake_ms);
                    break;
                }
                if !self.perform_one(participant).await? {
                    // Another instance has it.
                    break;
                }
            }
        }
        self.count_open().await?;
        self.clean().await?;
        Ok(next_ms)
    }

    async fn next_wake(&self, participant: &Participant) -> Result<Option<i64>, Fault> {
        let mut transaction = self.driver.sagas.database.begin_read().await.map_err(fault)?;
        let next = store::next_wake(
            transaction.connection(),
            participant.definition().name(),
            &participant.name,
        );
        next.await.map_err(fault)
    }

    /// Performs the first timer or command that is due. Returns `false` if there is none that is free.
    async fn perform_one(&self, participant: &Participant) -> Result<bool, Fault> {
        let now_ms = self.clock.now_ms();
        let mut transaction = begin_on(&self.driver.sagas.database).await.map_err(fault)?;
        let saga_type = participant.definition().name();
        let due = store::claim_due(transaction.connection(), saga_type, &participant.name, now_ms).await;
        let Some(row) = due.map_err(fault)? else {
            return Ok(false);
        };
        let command: Option<PendingCommand> = row.command.as_deref().map(serde_json::from_str).transpose()?;
        let trigger = command.as_ref().map_or(Trigger::Timer, Trigger::Command);
        let mut holder = TransactionHolder::new(transaction);
        match SagaChange::run(participant, &mut holder, trigger, &row.key.saga_id, now_ms).await {
            Ok(changes) => self.driver.commit(holder, vec![changes]).await?,
            // The row is locked, so another change is one of a database that does not lock.
            Err(ChangeError::Conflict(_)) => {}
            Err(ChangeError::Fault(fault)) => return self.postpone(row, fault, now_ms).await.map(|()| true),
        }
        Ok(true)
    }

    /// Lets a saga wait whose function failed, so that others go on.
    async fn postpone(&self, row: store::SagaRow, failed: Fault, now_ms: i64) -> Result<(), Fault> {
        let (saga_type, saga_id) = (&row.key.saga_type, &row.key.saga_id);
        tracing::warn!(
            event = "saga_timer_failed",
            saga_type,
            saga_id,
            error = %failed,
            "a timer or command of saga {saga_id} failed and is retried: {failed}"
        );
        let mut transaction = begin_on(&self.driver.sagas.database).await.map_err(fault)?;
        let line = store::AuditLine {
            version: row.version.saturating_add(1),
            at_ms: now_ms,
            actor: "timer".to_owned(),
            action: "failed, and retried".to_owned(),
            reason: Some(failed.to_string()),
        };
        let later = store::SagaRow {
            version: line.version,
            wake_ms: Some(now_ms.saturating_add(AFTER_ERROR_MS)),
            ..row
        };
        let saved = store::save(transaction.connection(), &later).await.map_err(fault)?;
        if saved.is_ok() {
            let audited = store::audit(transaction.connection(), &later.key, &line).await;
            audited.map_err(fault)?;
            transaction.commit().await.map_err(fault)?;
        }
        Ok(())
    }

    async fn count_open(&self) -> Result<(), Fault> {
        let now_ms = self.clock.now_ms();
        if now_ms < self.count_ms.load(Ordering::Relaxed) {
            return Ok(());
        }
        let sagas = &self.driver.sagas;
        let mut transaction = sagas.database.begin_read().await.map_err(fault)?;
        let open = store::count_open(transaction.connection()).await.map_err(fault)?;
        sagas.metrics.set_open(open);
        self.count_ms.store(now_ms.saturating_add(COUNT_MS), Ordering::Relaxed);
        Ok(())
    }

    async fn clean(&self) -> Result<(), Fault> {
        let now_ms = self.clock.now_ms();
        let sagas = &self.driver.sagas;
        let Some(keep) = sagas
            .keep_ended
            .filter(|_| now_ms >= self.clean_ms.load(Ordering::Relaxed))
        else {
            return Ok(());
        };
        let before_ms = now_ms.saturating_sub(i64::try_from(keep.as_millis()).unwrap_or(i64::MAX));
        loop {
            let mut transaction = begin_on(&sagas.database).await.map_err(fault)?;
            let deleted = store::delete_ended(transaction.connection(), before_ms, CLEAN_BATCH).await;
            let deleted = deleted.map_err(fault)?;
            transaction.commit().await.map_err(fault)?;
            if deleted > 0 {
                tracing::info!(event = "sagas_deleted", deleted, "{deleted} ended sagas were deleted");
            }
            if deleted < u64::from(CLEAN_BATCH) {
                break;
            }
        }
        self.clean_ms.store(now_ms.saturating_add(CLEAN_MS), Ordering::Relaxed);
        Ok(())
    }
}
