//! A running relay.

use std::{sync::Arc, time::Duration};

use milena_client::producer::Producer;
use tokio::{
    sync::watch,
    task::{JoinError, JoinHandle},
};

use super::{
    RelayError, RelayStatus,
    driver::Driver,
    metrics::{RelayView, producer_metrics},
};

/// A running relay. Dropping it ends it at once; its leases then expire.
#[derive(Debug)]
pub struct RunningRelay {
    view: Arc<RelayView>,
    producer: Producer,
    stop: watch::Sender<bool>,
    ended: watch::Receiver<bool>,
    task: Option<JoinHandle<()>>,
    /// Bound of the time for stopping: a database that is away must not keep the process.
    limit: Duration,
}

/// Announces the end of the task, also by a panic.
struct EndGuard {
    view: Arc<RelayView>,
    ended: watch::Sender<bool>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.view.set_ended();
        self.ended.send_replace(true);
    }
}

impl RunningRelay {
    pub(super) fn spawn(driver: Driver, view: Arc<RelayView>, producer: Producer, lease: Duration) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (sender, ended) = watch::channel(false);
        let guard = EndGuard {
            view: Arc::clone(&view),
            ended: sender,
        };
        let task = tokio::spawn(async move {
            let _guard = guard;
            driver.run(stopped).await;
        });
        Self {
            view,
            producer,
            stop,
            ended,
            task: Some(task),
            limit: lease,
        }
    }

    /// Returns when the relay cannot continue. [`stop`](Self::stop) returns the reason.
    pub async fn ended(&self) {
        let mut ended = self.ended.clone();
        // An error says that the task is gone.
        let _ = ended.wait_for(|has_ended| *has_ended).await;
    }

    /// Finishes the events in flight, marks them, and releases the leases. If the database or the cluster is away, it
    /// gives up after the duration of a lease.
    pub async fn stop(mut self) -> Result<(), RelayError> {
        self.stop.send_replace(true);
        let Some(mut task) = self.task.take() else {
            return Ok(());
        };
        match tokio::time::timeout(self.limit, &mut task).await {
            Ok(result) => result.map_err(|error: JoinError| {
                tracing::error!(event = "outbox_relay_panicked", %error, "the outbox relay panicked: {error}");
                RelayError::Panicked
            }),
            Err(_) => {
                task.abort();
                tracing::warn!(
                    event = "outbox_relay_stop_timed_out",
                    "the outbox relay could not release its leases, which now expire"
                );
                Ok(())
            }
        }
    }

    /// Current status.
    pub fn status(&self) -> RelayStatus {
        self.view.status()
    }

    /// Metrics in Prometheus' text format: `milena_outbox_*`, and those of the producer under Kafka's names.
    pub fn to_prometheus(&self) -> String {
        self.view.to_prometheus() + &producer_metrics(&self.producer)
    }
}

impl Drop for RunningRelay {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
