//! A running application.

use std::{fmt, future::Future, net::SocketAddr, pin::Pin, sync::Arc, time::Duration};

use milena_client::consumer::TopicPartition;
use tokio::task::JoinHandle;

use crate::{
    background::BackgroundTask,
    dead_letters,
    driver::{Setup, Started},
    error::AppError,
    metrics::HandlerCounts,
    outside::Programs,
    serve::{Endpoint, Paths},
    settings::Limits,
    status::Status,
    times::ConsumerTimes,
    view::View,
};

/// A running application. Dropping it ends it at once, like [`kill`](Self::kill).
pub struct Running {
    engines: Vec<Started>,
    background: Vec<BackgroundTask>,
    limits: Limits,
    programs: Programs,
    view: Arc<View>,
    /// Tasks that only observe.
    watchers: Vec<JoinHandle<()>>,
    endpoints: Vec<(Paths, SocketAddr)>,
}

/// Parts of an application that have started.
pub(crate) struct RunningParts {
    pub(crate) engines: Vec<Started>,
    pub(crate) background: Vec<BackgroundTask>,
    pub(crate) limits: Limits,
    pub(crate) programs: Programs,
    pub(crate) setup: Arc<Setup>,
    pub(crate) view: View,
    pub(crate) endpoints: Vec<Endpoint>,
}

impl Running {
    pub(crate) fn new(parts: RunningParts) -> Self {
        let RunningParts {
            engines,
            background,
            limits,
            programs,
            setup,
            view,
            endpoints,
        } = parts;
        let view = Arc::new(view);
        let mut watchers = vec![tokio::spawn(dead_letters::watch(Arc::clone(&view), setup))];
        let endpoints = endpoints.into_iter().map(|endpoint| {
            let bound = (endpoint.paths, endpoint.address());
            watchers.push(tokio::spawn(endpoint.run(Arc::clone(&view))));
            bound
        });
        let endpoints = endpoints.collect();
        Self {
            engines,
            background,
            limits,
            programs,
            view,
            watchers,
            endpoints,
        }
    }

    /// Address of the HTTP endpoint, with the port that the system chose for port 0: see
    /// [`App::serve`](crate::App::serve).
    pub fn served_at(&self) -> Option<SocketAddr> {
        self.bound(Paths::All)
    }

    /// Address of the metrics endpoint, with the port that the system chose for port 0: see
    /// [`App::metrics_endpoint`](crate::App::metrics_endpoint).
    pub fn metrics_at(&self) -> Option<SocketAddr> {
        self.bound(Paths::Metrics)
    }

    fn bound(&self, paths: Paths) -> Option<SocketAddr> {
        let mut endpoints = self.endpoints.iter();
        endpoints
            .find(|(served, _)| *served == paths)
            .map(|(_, address)| *address)
    }

    /// Returns when the application cannot continue. [`stop`](Self::stop) returns the reason.
    pub async fn ended(&self) {
        type Ended<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;
        let engines = self
            .engines
            .iter()
            .map(|started| -> Ended<'_> { Box::pin(started.engine.ended()) });
        let background = self
            .background
            .iter()
            .map(|task| -> Ended<'_> { Box::pin(task.ended()) });
        let mut waiting: Vec<_> = engines.chain(background).collect();
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

    /// Shuts down: stops polling, finishes the records in flight, publishes their output, commits, leaves the groups, and
    /// stops the background tasks. The shutdown timeout bounds all of it.
    pub async fn stop(mut self) -> Result<(), AppError> {
        let failure = self.failure();
        self.programs.begin_stop();
        let engines = std::mem::take(&mut self.engines);
        let background = std::mem::take(&mut self.background);
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
            let mut failed = None;
            for task in background {
                failed = failed.or(task.stop().await);
            }
            failed
        };
        let in_time = tokio::time::timeout(limit, ending).await;
        self.programs.stop().await;
        for watcher in std::mem::take(&mut self.watchers) {
            watcher.abort();
            // The watcher was aborted, so its result is a cancellation.
            let _ = watcher.await;
        }
        match (failure, in_time) {
            (Some(failure), _) => Err(failure),
            (None, Ok(None)) => Ok(()),
            (None, Ok(Some(failed))) => Err(failed),
            (None, Err(_)) => Err(AppError::ShutdownTimedOut {
                limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
            }),
        }
    }

    /// Ends at once, like a crash: nothing is committed.
    pub fn kill(mut self) {
        self.engines.iter_mut().for_each(Started::kill);
        self.background.clear();
    }

    /// Reason why the application cannot continue, if there is one.
    pub fn failure(&self) -> Option<AppError> {
        let engine = self.engines.iter().find_map(|started| started.engine.failure());
        engine.or_else(|| self.background.iter().find_map(BackgroundTask::failure))
    }

    /// Counters of each handler.
    pub fn counts(&self) -> Vec<HandlerCounts> {
        self.view.counts()
    }

    /// Time budget of each consumer, which shows the bottleneck: brokers, decoding, handlers or commits.
    pub fn times(&self) -> Vec<ConsumerTimes> {
        self.view.times()
    }

    /// Current status.
    pub fn status(&self) -> Status {
        self.view.status()
    }

    /// All metrics in Prometheus' text format: handlers, partitions and breakers, the number and age of dead letters,
    /// counted every 15 s, and the client metrics under Kafka's names with the label `group`.
    pub fn to_prometheus(&self) -> String {
        self.view.to_prometheus()
    }

    /// Pauses a partition until [`resume`](Self::resume), also across rebalances.
    pub fn pause(&self, partition: &TopicPartition) {
        self.engines.iter().for_each(|started| started.engine.pause(partition));
    }

    pub fn resume(&self, partition: &TopicPartition) {
        self.engines.iter().for_each(|started| started.engine.resume(partition));
    }

    /// Restarts a stopped partition with the record that stopped it. Returns `false` if the partition is not assigned
    /// to this application.
    pub fn restart_partition(&self, partition: &TopicPartition) -> bool {
        let mut engines = self.engines.iter();
        engines.any(|started| started.engine.restart(partition))
    }

    /// Maximum duration of a shutdown.
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
