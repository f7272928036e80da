//! Components that run beside the handlers of an application, such as the relay of an outbox or the timers of sagas.

use std::{fmt, pin::Pin, sync::Arc};

use milena_client::config::ConfigMap;

use crate::{
    clock::Clock,
    error::{AppError, StartError},
    handler::BoxError,
};

/// Future of a [`Background`] component.
pub type BackgroundFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A component that runs beside the handlers. [`App::background`](crate::App::background) adds it.
pub trait Background: Send + Sync + 'static {
    /// Name in errors.
    fn name(&self) -> String;

    /// Starts the component, before the first record is polled. An error keeps the application from starting.
    fn start(&self, context: BackgroundContext) -> BackgroundFuture<'_, Result<Arc<dyn RunningBackground>, BoxError>>;
}

/// The application around a component.
#[derive(Debug, Clone)]
pub struct BackgroundContext {
    pub group: String,
    /// Name of this instance.
    pub instance: String,
    pub clock: Clock,
    /// Settings of all clients, under Kafka's names.
    pub common: ConfigMap,
    /// Settings of producers, in addition.
    pub producer: ConfigMap,
}

/// A running component.
pub trait RunningBackground: Send + Sync + 'static {
    /// Returns when the component cannot continue; the application then ends.
    fn ended(&self) -> BackgroundFuture<'_, ()> {
        Box::pin(std::future::pending())
    }

    /// Stops gracefully, after the handlers have ended. Returns the reason why the component ended by itself, if it has.
    fn stop(&self) -> BackgroundFuture<'_, Result<(), BoxError>>;

    /// Ends at once, like a crash. It may follow a `stop`.
    fn kill(&self);

    /// Metrics in Prometheus' text format.
    fn to_prometheus(&self) -> String {
        String::new()
    }
}

/// Running components of an application. Dropping them ends them at once.
#[derive(Default)]
pub(crate) struct Backgrounds {
    running: Vec<(String, Arc<dyn RunningBackground>)>,
}

impl Backgrounds {
    pub(crate) async fn start(
        components: &[Arc<dyn Background>],
        context: &BackgroundContext,
    ) -> Result<Self, StartError> {
        let mut all = Self::default();
        for component in components {
            let name = component.name();
            match component.start(context.clone()).await {
                Ok(running) => all.running.push((name, running)),
                Err(error) => return Err(StartError::Background { name, error }),
            }
        }
        Ok(all)
    }

    /// The components, for their metrics.
    pub(crate) fn shared(&self) -> Vec<Arc<dyn RunningBackground>> {
        self.running.iter().map(|(_, running)| Arc::clone(running)).collect()
    }

    /// Returns when a component cannot continue.
    pub(crate) async fn ended(&self) {
        let mut waiting: Vec<_> = self.running.iter().map(|(_, running)| running.ended()).collect();
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

    /// Stops all components, and returns the first failure.
    pub(crate) async fn stop(&self) -> Result<(), AppError> {
        let mut result = Ok(());
        for (name, running) in &self.running {
            if let Err(error) = running.stop().await {
                let failure = AppError::Background {
                    name: name.clone(),
                    reason: error.to_string(),
                };
                result = result.and(Err(failure));
            }
        }
        result
    }
}

impl Drop for Backgrounds {
    fn drop(&mut self) {
        self.running.iter().for_each(|(_, running)| running.kill());
    }
}

impl fmt::Debug for Backgrounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.running.iter().map(|(name, _)| name);
        f.debug_list().entries(names).finish()
    }
}
