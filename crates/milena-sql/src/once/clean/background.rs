//! The clean-up as a background task of an application.

use std::time::Duration;

use milena_app::{
    background::{Background, BackgroundContext, BackgroundFuture},
    handler::BoxError,
};
use milena_client::admin::Admin;
use tokio::time::MissedTickBehavior;

use super::{CleanError, CleanUp, Cleaned};
use crate::Database;

/// Time between two clean-ups.
const INTERVAL: Duration = Duration::from_secs(3_600);

/// A clean-up that runs beside the handlers: see [`CleanUp::background`].
///
/// A period that is shorter than the retention of a topic ends the application. Other errors are logged as
/// `processed_events_kept`, and the events stay until the next clean-up.
#[derive(Debug, Clone)]
pub struct CleanUpTask {
    pub(super) clean: CleanUp,
    pub(super) database: Database,
}

impl Background for CleanUpTask {
    fn name(&self) -> &str {
        "clean-up of processed events"
    }

    fn run(&self, mut context: BackgroundContext) -> BackgroundFuture {
        let task = self.clone();
        Box::pin(async move {
            let admin = Admin::new(context.common.clone())?;
            let mut interval = tokio::time::interval(INTERVAL);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    () = context.stop.requested() => return Ok(()),
                    _ = interval.tick() => {}
                }
                tokio::select! {
                    () = context.stop.requested() => return Ok(()),
                    cleaned = task.clean.clean(&task.database, &admin) => report(&task.clean, cleaned)?,
                }
            }
        })
    }
}

fn report(clean: &CleanUp, cleaned: Result<Cleaned, CleanError>) -> Result<(), BoxError> {
    let group = &*clean.group;
    match cleaned {
        Ok(Cleaned { deleted: 0, .. }) => {}
        Ok(Cleaned { deleted, keep, .. }) => tracing::info!(
            event = "processed_events_deleted",
            group,
            deleted,
            keep_s = keep.as_secs(),
            "deleted {deleted} processed events of group {group}"
        ),
        Err(error @ CleanError::TooShort { .. }) => return Err(error.into()),
        Err(error) => tracing::warn!(
            event = "processed_events_kept",
            group,
            %error,
            "processed events of group {group} were not deleted: {error}"
        ),
    }
    Ok(())
}
