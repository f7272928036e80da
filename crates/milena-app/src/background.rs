//! Tasks that run beside the handlers of an application.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use milena_client::config::ConfigMap;
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    App,
    clock::Clock,
    error::{AppError, StartError},
    handler::BoxError,
    status::BackgroundStatus,
};

/// Future of [`Background::run`].
pub type BackgroundFuture = Pin<Box<dyn Future<Output = Result<(), BoxError>> + Send>>;

/// A task that runs beside the handlers, such as the relay of an outbox: see [`App::background`].
pub trait Background: Send + Sync + 'static {
    /// Name in logs, errors and the status.
    fn name(&self) -> &str;

    /// Runs before the first record is polled. An error keeps the application from starting.
    fn check(&self) -> BackgroundFuture {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Runs until [`BackgroundContext::stop`] is requested, then finishes its work in flight. An earlier end, or an error,
    /// ends the application.
    fn run(&self, context: BackgroundContext) -> BackgroundFuture;

    /// Reason why the task makes no progress. The application is then not healthy.
    fn problem(&self) -> Option<String> {
        None
    }

    /// Appends metrics in Prometheus' text format.
    fn write_metrics(&self, _text: &mut String) {}
}

/// The application around a background task.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BackgroundContext {
    pub group: String,
    /// Name of this instance.
    pub instance: String,
    pub clock: Clock,
    /// Settings of all clients, under Kafka's names.
    pub common: ConfigMap,
    /// Settings of producers, in addition.
    pub producer: ConfigMap,
    pub stop: BackgroundStop,
}

/// The signal that a background task should end.
#[derive(Debug, Clone)]
pub struct BackgroundStop(watch::Receiver<bool>);

impl BackgroundStop {
    /// Returns when the task should end.
    pub async fn requested(&mut self) {
        // An error says that the application is gone.
        let _ = self.0.wait_for(|is_requested| *is_requested).await;
    }
}

impl App {
    /// Runs a task beside the handlers. It starts after the topics are checked. At shutdown it is stopped after the last
    /// handler has returned, so that it sees what the handlers have done. If it ends by itself, the application ends.
    pub fn background(mut self, task: impl Background) -> Self {
        self.background.push(Arc::new(task));
        self
    }

    pub(crate) async fn check_background(&self) -> Result<(), StartError> {
        for task in &self.background {
            let name = task.name().to_owned();
            task.check()
                .await
                .map_err(|error| StartError::Background { name, error })?;
        }
        Ok(())
    }
}

/// A running background task.
pub(crate) struct BackgroundTask {
    pub(crate) view: BackgroundView,
    stop: watch::Sender<bool>,
    handle: JoinHandle<()>,
}

/// Read access to a background task.
#[derive(Clone)]
pub(crate) struct BackgroundView {
    pub(crate) task: Arc<dyn Background>,
    failure: Arc<Failure>,
}

impl BackgroundView {
    pub(crate) fn failure(&self) -> Option<AppError> {
        self.failure.error().clone()
    }

    pub(crate) fn status(&self) -> BackgroundStatus {
        let failure = self.failure().map(|failure| failure.to_string());
        BackgroundStatus {
            name: self.task.name().to_owned(),
            problem: failure.or_else(|| self.task.problem()),
        }
    }
}

struct Failure {
    error: Mutex<Option<AppError>>,
    ended: watch::Sender<bool>,
}

impl Failure {
    fn error(&self) -> MutexGuard<'_, Option<AppError>> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes the end of a task before it was asked to, also by a panic.
struct EndGuard {
    name: String,
    stop: watch::Receiver<bool>,
    failure: Arc<Failure>,
    reason: Option<String>,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if *self.stop.borrow() && !std::thread::panicking() && self.reason.is_none() {
            return;
        }
        let reason = self.reason.take().unwrap_or_else(|| {
            let how = if std::thread::panicking() {
                "it panicked"
            } else {
                "it ended by itself"
            };
            how.to_owned()
        });
        let name = self.name.clone();
        self.failure
            .error()
            .get_or_insert(AppError::Background { name, reason });
        self.failure.ended.send_replace(true);
    }
}

impl BackgroundTask {
    pub(crate) fn spawn(task: Arc<dyn Background>, app: &App) -> Self {
        let (stop, stopped) = watch::channel(false);
        let failure = Arc::new(Failure {
            error: Mutex::default(),
            ended: watch::channel(false).0,
        });
        let mut guard = EndGuard {
            name: task.name().to_owned(),
            stop: stopped.clone(),
            failure: Arc::clone(&failure),
            reason: None,
        };
        let running = task.run(app.background_context(BackgroundStop(stopped)));
        let handle = tokio::spawn(async move {
            if let Err(error) = running.await {
                guard.reason = Some(error.to_string());
            }
            drop(guard);
        });
        Self {
            view: BackgroundView { task, failure },
            stop,
            handle,
        }
    }

    /// Returns when the task has ended by itself.
    pub(crate) async fn ended(&self) {
        let mut ended = self.view.failure.ended.subscribe();
        if ended.wait_for(|has_ended| *has_ended).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(crate) fn failure(&self) -> Option<AppError> {
        self.view.failure()
    }

    /// Asks the task to end, and waits for it.
    pub(crate) async fn stop(mut self) -> Option<AppError> {
        self.stop.send_replace(true);
        // A panic is noted by the guard.
        let _ = (&mut self.handle).await;
        self.failure()
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        self.handle.abort();
    }
}

impl fmt::Debug for BackgroundTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BackgroundTask").field(&self.view.task.name()).finish()
    }
}
