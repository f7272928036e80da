//! An application that runs.

use std::{fmt, net::SocketAddr, sync::Arc, time::Duration};

use milena_client::consumer::TopicPartition;
use tokio::{net::TcpListener, task::JoinHandle};

use crate::{
    dead_letters,
    driver::{Setup, Started},
    error::AppError,
    metrics::HandlerCounts,
    outside::Programs,
    serve,
    settings::Limits,
    status::Status,
    times::ConsumerTimes,
    view::View,
};

/// An application that runs in the background. Dropping it ends it at once, as [`kill`](Self::kill) does.
pub struct Running {
    engines: Vec<Started>,
    limits: Limits,
    programs: Programs,
    view: Arc<View>,
    /// Tasks that only look.
    watchers: Vec<JoinHandle<()>>,
    served_at: Option<SocketAddr>,
}

impl Running {
    pub(crate) fn new(
        engines: Vec<Started>,
        limits: Limits,
        programs: Programs,
        setup: Arc<Setup>,
        endpoint: Option<(TcpListener, SocketAddr)>,
    ) -> Self {
        let view = Arc::new(View::new(&engines));
        let mut watchers = vec![tokio::spawn(dead_letters::watch(Arc::clone(&view), setup))];
        let served_at = endpoint.map(|(listener, address)| {
            watchers.push(tokio::spawn(serve::run(listener, Arc::clone(&view))));
            address
        });
        Self {
            engines,
            limits,
            programs,
            view,
            watchers,
            served_at,
        }
    }

    /// The address where `/metrics`, `/healthz`, `/readyz` and `/status` are served, if they are: see
    /// [`App::serve`](crate::App::serve). It has the port that was taken if 0 was asked for.
    pub fn served_at(&self) -> Option<SocketAddr> {
        self.served_at
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
        for watcher in std::mem::take(&mut self.watchers) {
            watcher.abort();
            // It was aborted, so that is what it says.
            let _ = watcher.await;
        }
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
        self.view.counts()
    }

    /// Where the time of each consumer has gone, so that one sees what is slow: brokers, reading, handlers or commits.
    pub fn times(&self) -> Vec<ConsumerTimes> {
        self.view.times()
    }

    /// How it stands at this moment.
    pub fn status(&self) -> Status {
        self.view.status()
    }

    /// All metrics in the text format of Prometheus: those of handlers, partitions and breakers, the number and age of dead
    /// letters, which are looked at every 15 s, and those of its consumers and producers under Kafka's names with the label
    /// `group`.
    pub fn to_prometheus(&self) -> String {
        self.view.to_prometheus()
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
        self.watchers.iter().for_each(JoinHandle::abort);
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
