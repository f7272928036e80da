//! An application that runs.

use std::{collections::BTreeSet, fmt, time::Duration};

use milena_client::consumer::TopicPartition;

use crate::{
    driver::Started,
    error::AppError,
    metrics::{self, HandlerCounts},
    outside::Programs,
    settings::Limits,
    status::Status,
    times::ConsumerTimes,
};

/// An application that runs in the background. Dropping it ends it at once, as [`kill`](Self::kill) does.
pub struct Running {
    engines: Vec<Started>,
    limits: Limits,
    programs: Programs,
}

impl Running {
    pub(crate) fn new(engines: Vec<Started>, limits: Limits, programs: Programs) -> Self {
        Self {
            engines,
            limits,
            programs,
        }
    }

    /// Returns when it cannot go on. [`stop`](Self::stop) tells why.
    pub async fn ended(&self) {
        let mut waiting: Vec<_> = self
            .engines
            .iter()
            .map(|started| Box::pin(started.engine.ended()))
            .collect();
        std::future::poll_fn(|cx| {
            let is_any = waiting.iter_mut().any(|ended| ended.as_mut().poll(cx).is_ready());
            if is_any {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
    }

    /// Ends in peace: nothing new is begun; what is in handlers is ended, published and committed; the groups are left.
    /// All of that is bounded by the shutdown timeout.
    pub async fn stop(mut self) -> Result<(), AppError> {
        let failure = self.failure();
        self.programs.begin_stop();
        let engines = std::mem::take(&mut self.engines);
        let limit = self.limits.shutdown;
        let close_timeout = self.limits.close_timeout;
        let ending = async {
            for started in &engines {
                started.engine.shut_down();
            }
            for started in &engines {
                started.engine.closed().await;
            }
            for started in engines {
                started.finish(close_timeout).await;
            }
        };
        let in_time = tokio::time::timeout(limit, ending).await;
        self.programs.stop().await;
        match (failure, in_time) {
            (Some(failure), _) => Err(failure),
            (None, Ok(())) => Ok(()),
            (None, Err(_)) => Err(AppError::ShutdownTimedOut {
                limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    /// Ends at once, as a crash would: nothing is committed.
    pub fn kill(mut self) {
        self.engines.iter_mut().for_each(Started::kill);
    }

    /// Why it cannot go on, if so.
    pub fn failure(&self) -> Option<AppError> {
        self.engines.iter().find_map(|started| started.engine.failure())
    }

    /// What each handler has done.
    pub fn counts(&self) -> Vec<HandlerCounts> {
        self.engines
            .iter()
            .flat_map(|started| started.engine.counts())
            .collect()
    }

    /// Where the time of each consumer has gone, so that one sees what is slow: brokers, reading, handlers or commits.
    pub fn times(&self) -> Vec<ConsumerTimes> {
        let engines = self.engines.iter();
        engines.flat_map(|started| started.engine.consumer_times()).collect()
    }

    /// How it stands at this moment.
    pub fn status(&self) -> Status {
        let mut status = Status::default();
        for started in &self.engines {
            started.engine.add_status(&mut status);
        }
        // Those that engines share are the same.
        let mut names = BTreeSet::new();
        status.breakers.retain(|breaker| names.insert(breaker.name.clone()));
        status
    }

    /// All metrics in the text format of Prometheus.
    pub fn to_prometheus(&self) -> String {
        metrics::to_prometheus(&self.counts(), &self.times(), &self.status())
    }

    /// Fetches nothing of a partition any more until [`resume`](Self::resume). It stays so through rebalances.
    pub fn pause(&self, partition: &TopicPartition) {
        self.engines.iter().for_each(|started| started.engine.pause(partition));
    }

    pub fn resume(&self, partition: &TopicPartition) {
        self.engines.iter().for_each(|started| started.engine.resume(partition));
    }

    /// Goes on with a partition that has stopped, beginning with the record that stopped it. `false` if it is not ours.
    pub fn restart_partition(&self, partition: &TopicPartition) -> bool {
        let mut engines = self.engines.iter();
        engines.any(|started| started.engine.restart(partition))
    }

    /// How long the end may take.
    pub fn shutdown_timeout(&self) -> Duration {
        self.limits.shutdown
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engines.iter_mut().for_each(Started::kill);
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("engines", &self.engines.len())
            .finish_non_exhaustive()
    }
}
