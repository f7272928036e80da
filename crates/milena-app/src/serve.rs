//! HTTP endpoints of an application: `/metrics`, `/healthz`, `/readyz` and `/status`.

use std::{future, io, net::SocketAddr, sync::Arc};

use milena_http::Page;

use crate::{error::StartError, status::Status, view::View};

/// Bound of concurrent connections. Others wait in the listen queue.
const CONNECTIONS_MAX: usize = 64;

/// Content type of Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// Paths that an endpoint serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paths {
    All,
    /// `/metrics` only.
    Metrics,
}

/// A bound endpoint.
pub(crate) struct Endpoint {
    pub(crate) paths: Paths,
    http: milena_http::Endpoint,
}

impl Endpoint {
    /// Binds the address. Fails if it is in use.
    pub(crate) async fn bind(address: &str, paths: Paths) -> Result<Self, StartError> {
        let bound = milena_http::Endpoint::bind(address, CONNECTIONS_MAX).await;
        let http = bound.map_err(|error: io::Error| StartError::Serve {
            address: address.to_owned(),
            error,
        })?;
        Ok(Self { paths, http })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.http.address()
    }

    /// Serves requests until the task is aborted.
    pub(crate) async fn run(self, view: Arc<View>) {
        let paths = self.paths;
        self.http
            .run(move |path| future::ready(page(&path, paths, &view)))
            .await;
    }
}

fn page(path: &str, paths: Paths, view: &View) -> Page {
    match path {
        "/metrics" => Page::ok(METRICS, view.to_prometheus()),
        _ if paths == Paths::Metrics => Page::text(404, "use /metrics"),
        "/healthz" => health(&view.status(), Status::is_healthy),
        "/readyz" => health(&view.status(), Status::is_ready),
        "/status" => Page {
            content_type: JSON.into(),
            ..Page::text(200, view.status().to_json().to_string())
        },
        _ => Page::text(404, "use /metrics, /healthz, /readyz or /status"),
    }
}

/// 200 if the condition holds, otherwise 503 with the reasons.
fn health(status: &Status, is_well: fn(&Status) -> bool) -> Page {
    if is_well(status) {
        return Page::text(200, "ok");
    }
    let mut reasons: Vec<String> = status.failure.iter().cloned().collect();
    reasons.extend(status.stuck().map(ToString::to_string));
    reasons.extend(status.background.iter().filter_map(|task| task.problem.clone()));
    if reasons.is_empty() {
        reasons.push("not a member of its group yet".to_owned());
    }
    Page::text(503, reasons.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_serves_its_paths_and_nothing_else() {
        let status = |path: &str, paths| page(path, paths, &View::new(&[], vec![], vec![])).status;
        for path in ["/metrics", "/healthz", "/readyz", "/status"] {
            assert_eq!(status(path, Paths::All), 200, "{path}");
        }
        assert_eq!(status("/other", Paths::All), 404);
        assert_eq!(status("/metrics", Paths::Metrics), 200);
        for path in ["/", "/healthz", "/readyz", "/status"] {
            assert_eq!(status(path, Paths::Metrics), 404, "{path}");
        }
    }
}
