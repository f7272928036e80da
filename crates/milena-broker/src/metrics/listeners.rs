//! The counters of listeners: connections, handshakes, log-ins, certificates.

use std::{
    sync::atomic::{AtomicI64, AtomicU64, Ordering},
    time::{SystemTime, UNIX_EPOCH},
};

use super::text::Text;
use crate::{net::FailureKind, node::Node};

/// The counters of one listener.
#[derive(Debug, Default)]
pub(crate) struct ListenerMetrics {
    created: AtomicU64,
    closed: AtomicU64,
    /// Connections that were closed at once: their address had too many.
    refused: AtomicU64,
    handshakes: AtomicU64,
    resumed_handshakes: AtomicU64,
    authentications: AtomicU64,
    failed_authentications: AtomicU64,
    reauthentications: AtomicU64,
    failed_reauthentications: AtomicU64,
    expired: AtomicU64,
    /// By [`FailureKind`].
    failures: [AtomicU64; FailureKind::ALL.len()],
    certificate_reloads: AtomicU64,
    failed_certificate_reloads: AtomicU64,
    /// In seconds since 1970; 0 for none.
    certificate_expires_at_s: AtomicI64,
}

/// The count of one open connection; dropping it counts the close.
#[derive(Debug)]
pub(crate) struct OpenOnListener<'a>(&'a ListenerMetrics);

impl Drop for OpenOnListener<'_> {
    fn drop(&mut self) {
        add(&self.0.closed);
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl ListenerMetrics {
    pub(crate) fn opened(&self) -> OpenOnListener<'_> {
        add(&self.created);
        OpenOnListener(self)
    }

    pub(crate) fn refused(&self) {
        add(&self.refused);
    }

    pub(crate) fn handshake_done(&self, is_resumed: bool) {
        add(if is_resumed {
            &self.resumed_handshakes
        } else {
            &self.handshakes
        });
    }

    pub(crate) fn authenticated(&self) {
        add(&self.authentications);
    }

    pub(crate) fn reauthenticated(&self) {
        add(&self.reauthentications);
    }

    pub(crate) fn reauthentication_failed(&self) {
        add(&self.failed_reauthentications);
    }

    pub(crate) fn session_expired(&self) {
        add(&self.expired);
    }

    pub(crate) fn failed(&self, kind: FailureKind) {
        if let Some(counter) = self.failures.get(kind as usize) {
            add(counter);
        }
        if kind.is_authentication() {
            add(&self.failed_authentications);
        }
    }

    pub(crate) fn certificate_reloaded(&self, is_ok: bool) {
        add(if is_ok {
            &self.certificate_reloads
        } else {
            &self.failed_certificate_reloads
        });
    }

    pub(crate) fn certificate_expires_at(&self, seconds: Option<i64>) {
        self.certificate_expires_at_s
            .store(seconds.unwrap_or(0), Ordering::Relaxed);
    }
}

/// The metrics of all listeners.
pub(super) fn listeners(node: &Node, text: &mut Text) {
    type Counter = fn(&ListenerMetrics) -> &AtomicU64;
    let counters: [(&str, &str, Counter); 9] = [
        (
            "milena_broker_listener_connections_created_total",
            "Connections that a listener has accepted.",
            |metrics| &metrics.created,
        ),
        (
            "milena_broker_listener_connections_closed_total",
            "Connections of a listener that have ended.",
            |metrics| &metrics.closed,
        ),
        (
            "milena_broker_listener_connections_refused_total",
            "Connections that were closed because their address had too many.",
            |metrics| &metrics.refused,
        ),
        (
            "kafka_server_socket_server_metrics_successful_authentication_total",
            "Connections that have authenticated.",
            |metrics| &metrics.authentications,
        ),
        (
            "kafka_server_socket_server_metrics_failed_authentication_total",
            "Connections that failed to authenticate.",
            |metrics| &metrics.failed_authentications,
        ),
        (
            "kafka_server_socket_server_metrics_successful_reauthentication_total",
            "Sessions that were renewed.",
            |metrics| &metrics.reauthentications,
        ),
        (
            "kafka_server_socket_server_metrics_failed_reauthentication_total",
            "Sessions whose renewal failed.",
            |metrics| &metrics.failed_reauthentications,
        ),
        (
            "kafka_server_socket_server_metrics_expired_connections_killed_total",
            "Connections that were closed because their session had ended.",
            |metrics| &metrics.expired,
        ),
        (
            "milena_broker_certificate_reloads_total",
            "Certificates that were read again from changed files.",
            |metrics| &metrics.certificate_reloads,
        ),
    ];
    for (name, help, counter) in counters {
        text.family(name, "counter", help);
        for endpoint in node.endpoints.iter() {
            let value = counter(&endpoint.metrics).load(Ordering::Relaxed);
            text.sample(name, &[("listener", &endpoint.name)], value);
        }
    }
    text.single(
        "milena_broker_unauthenticated_connections",
        "gauge",
        "Connections that have not logged in yet.",
        node.unauthenticated.count(),
    );
    handshakes(node, text);
    failures(node, text);
    key_refreshes(node, text);
    certificates(node, text);
}

fn handshakes(node: &Node, text: &mut Text) {
    const NAME: &str = "milena_broker_tls_handshakes_total";
    text.family(NAME, "counter", "TLS handshakes, by whether a session was resumed.");
    for endpoint in node.endpoints.iter().filter(|endpoint| endpoint.has_tls()) {
        let metrics = &endpoint.metrics;
        for (kind, counter) in [("full", &metrics.handshakes), ("resumed", &metrics.resumed_handshakes)] {
            let labels: [(&str, &dyn std::fmt::Display); 2] = [("listener", &endpoint.name), ("kind", &kind)];
            text.sample(NAME, &labels, counter.load(Ordering::Relaxed));
        }
    }
}

fn key_refreshes(node: &Node, text: &mut Text) {
    const NAME: &str = "milena_broker_jwks_refreshes_total";
    let mut refreshes = node.tokens.refreshes().peekable();
    if refreshes.peek().is_some() {
        text.family(NAME, "counter", "Refreshes of the keys that verify tokens, by result.");
    }
    for (listener, (succeeded, failed)) in refreshes {
        for (result, count) in [("success", succeeded), ("failure", failed)] {
            let labels: [(&str, &dyn std::fmt::Display); 2] = [("listener", &listener), ("result", &result)];
            text.sample(NAME, &labels, count);
        }
    }
}

fn failures(node: &Node, text: &mut Text) {
    const NAME: &str = "milena_broker_connection_failures_total";
    text.family(
        NAME,
        "counter",
        "Connections that ended before they were served, by reason.",
    );
    for endpoint in node.endpoints.iter() {
        for (kind, counter) in FailureKind::ALL.iter().zip(&endpoint.metrics.failures) {
            let count = counter.load(Ordering::Relaxed);
            if count > 0 {
                let labels: [(&str, &dyn std::fmt::Display); 2] =
                    [("listener", &endpoint.name), ("reason", &kind.label())];
                text.sample(NAME, &labels, count);
            }
        }
    }
}

fn certificates(node: &Node, text: &mut Text) {
    const FAILED: &str = "milena_broker_failed_certificate_reloads_total";
    const DAYS: &str = "milena_broker_certificate_expiry_days";
    let with_tls = || node.endpoints.iter().filter(|endpoint| endpoint.has_tls());
    text.family(FAILED, "counter", "Changed certificate files that could not be used.");
    for endpoint in with_tls() {
        let failed = endpoint.metrics.failed_certificate_reloads.load(Ordering::Relaxed);
        text.sample(FAILED, &[("listener", &endpoint.name)], failed);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    text.family(DAYS, "gauge", "Days until the certificate of a listener expires.");
    for endpoint in with_tls() {
        let expires = endpoint.metrics.certificate_expires_at_s.load(Ordering::Relaxed);
        if expires != 0 {
            let days = (expires as f64 - now.as_secs_f64()) / 86_400.0;
            text.sample(DAYS, &[("listener", &endpoint.name)], format!("{days:.2}"));
        }
    }
}
