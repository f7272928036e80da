//! The task of a connection: waits for requests, connects, serves, and reconnects after a loss.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Poll, ready},
};

use milena_machines::{Random, backoff::Backoff};

use super::{
    CallError, Status,
    connection::{Common, Link, ParkOutcome},
    dial::dial,
    error::{ConnectError, DisconnectCause},
    established::{ConnectionEnd, EstablishedConnection},
    failures::FailureSubject,
    reload,
};
use crate::{
    auth::AuthenticationError,
    io::{instant, now_ms},
    reachability::FailureCause,
};

/// Runs until the link is closed. Dropping the future closes the link too, even if it was never polled.
pub(super) fn run(link: Arc<Link>, common: Arc<Common>, seed: u64) -> impl Future<Output = ()> + Send {
    let settings = &common.settings;
    let mut lifecycle = Lifecycle {
        reconnect: Backoff::new(settings.reconnect_backoff_ms, settings.reconnect_backoff_max_ms),
        setup: Backoff::new(
            settings.connection_setup_timeout_ms,
            settings.connection_setup_timeout_max_ms,
        ),
        random: Random::new(seed),
        losses: 0,
        setups_failed: 0,
        not_before_ms: 0,
        link,
        common,
    };
    async move {
        let error = loop {
            if let Err(error) = lifecycle.run_once().await {
                break error;
            }
        };
        lifecycle.link.fail_waiting(&error);
    }
}

struct Lifecycle {
    link: Arc<Link>,
    common: Arc<Common>,
    reconnect: Backoff,
    setup: Backoff,
    random: Random,
    /// Consecutive losses and failed attempts.
    losses: u32,
    setups_failed: u32,
    not_before_ms: i64,
}

impl Lifecycle {
    /// Waits for work, connects and serves until the connection ends. An error ends the task.
    async fn run_once(&mut self) -> Result<(), CallError> {
        self.link.work().await?;
        while_waiting(&self.link, tokio::time::sleep_until(instant(self.not_before_ms))).await?;
        if !self.link.has_waiting() {
            // All queued requests have expired.
            return Ok(());
        }
        self.link.set_status(Status::Connecting);
        let connecting = connect(
            &self.link,
            &self.common,
            self.setup
                .after_ms(self.setups_failed.saturating_add(1), &mut self.random),
        );
        let mut connection = match while_waiting(&self.link, connecting).await? {
            Ok(connection) => connection,
            Err(error) => {
                self.handle_connect_failure(error);
                return Ok(());
            }
        };
        self.losses = 0;
        self.setups_failed = 0;
        self.handle_connected(&connection);
        let end = connection.serve().await;
        self.handle_end(connection, end)
    }

    fn handle_connected(&self, connection: &EstablishedConnection) {
        let features = connection.versions().features();
        let mut newest = self.common.features();
        if features.epoch > newest.epoch {
            newest.clone_from(features);
        }
        drop(newest);
        for counters in [&self.link.counters, &self.common.totals] {
            counters.connected();
        }
        let failures = &self.common.failures;
        failures.handle_connected(now_ms(), self.subject());
        self.common.authentication.handle_connected(&self.link.endpoint);
        self.link.set_status(Status::Ready);
    }

    fn handle_connect_failure(&mut self, error: ConnectError) {
        self.setups_failed = self.setups_failed.saturating_add(1);
        for counters in [&self.link.counters, &self.common.totals] {
            counters.connect_failed();
        }
        self.back_off();
        self.note_failure(error.cause(), error.to_string());
        let error = match error {
            ConnectError::Authentication(error) => {
                self.handle_refused(&error);
                CallError::Authentication(Box::new(error))
            }
            error => CallError::ConnectFailed {
                address: self.link.endpoint.clone(),
                error: Box::new(error),
            },
        };
        tracing::debug!(event = "connect_failed", node = self.link.node_id, %error, "cannot connect");
        self.link.fail_waiting(&error);
        self.common.lost(self.link.node_id);
    }

    fn handle_refused(&self, error: &AuthenticationError) {
        for counters in [&self.link.counters, &self.common.totals] {
            counters.authentication_failed();
        }
        self.common
            .authentication
            .handle_refused(&self.link.endpoint, error.clone());
        // The next attempt uses certificates that were replaced meanwhile.
        if let Some(tls) = reload::of(&self.common) {
            let client = self.common.settings.client_id.clone();
            tokio::spawn(async move { reload::reload_if_changed(tls, &client).await });
        }
    }

    fn handle_end(&mut self, connection: EstablishedConnection, end: ConnectionEnd) -> Result<(), CallError> {
        for counters in [&self.link.counters, &self.common.totals] {
            counters.closed();
        }
        match end {
            ConnectionEnd::Idle => {
                self.link.set_status(Status::Unconnected);
                Ok(())
            }
            ConnectionEnd::Lost(cause) => {
                self.back_off();
                // Brokers may close connections that have nothing in flight.
                if connection.has_in_flight() || cause.cause() != FailureCause::Disconnected {
                    self.note_failure(cause.cause(), cause.to_string());
                }
                let error = CallError::Disconnected {
                    address: self.link.endpoint.clone(),
                    cause,
                };
                tracing::debug!(event = "disconnected", node = self.link.node_id, %error, "connection lost");
                connection.fail_in_flight(&error);
                self.common.lost(self.link.node_id);
                Ok(())
            }
            ConnectionEnd::Closed(error) => {
                connection.fail_in_flight(&error);
                Err(error)
            }
        }
    }

    fn note_failure(&self, cause: FailureCause, reason: String) {
        let failures = &self.common.failures;
        failures.handle_failure(now_ms(), self.subject(), cause, reason);
    }

    fn subject(&self) -> FailureSubject<'_> {
        FailureSubject {
            client: &self.common.settings.client_id,
            node_id: self.link.node_id,
            address: &self.link.endpoint,
        }
    }

    fn back_off(&mut self) {
        self.losses = self.losses.saturating_add(1);
        self.not_before_ms = now_ms().saturating_add(self.reconnect.after_ms(self.losses, &mut self.random));
        self.link.set_status(Status::BackingOff {
            until_ms: self.not_before_ms,
        });
    }
}

/// The end of a runtime drops its tasks at any await point.
impl Drop for Lifecycle {
    fn drop(&mut self) {
        let gone = CallError::Disconnected {
            address: self.link.endpoint.clone(),
            cause: DisconnectCause::RuntimeEnded,
        };
        if self.link.close(gone.clone()) {
            self.common.is_runtime_gone.store(true, Relaxed);
            self.link.fail_waiting(&gone);
        }
    }
}

async fn connect(
    link: &Arc<Link>,
    common: &Arc<Common>,
    timeout_ms: i64,
) -> Result<EstablishedConnection, ConnectError> {
    let transport = dial(&link.endpoint, &common.settings, timeout_ms).await?;
    EstablishedConnection::begin(Arc::clone(link), Arc::clone(common), transport).await
}

/// Waits for `future`. Meanwhile queued requests may expire, and closing the link ends the wait.
pub(super) async fn while_waiting<F: Future>(link: &Link, future: F) -> Result<F::Output, CallError> {
    let mut future = pin!(future);
    let mut timer = pin!(tokio::time::sleep_until(instant(i64::MAX)));
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Ok(output));
            }
            let deadline_ms = match link.park(cx, false) {
                ParkOutcome::Closed(error) => return Poll::Ready(Err(error)),
                ParkOutcome::Work => continue,
                ParkOutcome::Asleep { deadline_ms } => deadline_ms,
            };
            timer.as_mut().reset(instant(deadline_ms.unwrap_or(i64::MAX)));
            ready!(timer.as_mut().poll(cx));
            link.expire(now_ms());
        }
    })
    .await
}
