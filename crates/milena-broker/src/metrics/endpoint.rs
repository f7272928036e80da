//! The HTTP endpoint of the metrics: `GET /metrics`.

use std::sync::Arc;

use milena_http::{Endpoint, Page};

use super::{collect::render, text::CONTENT_TYPE};
use crate::node::Node;

/// Connections that are served at once; others wait to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = 16;

/// Serves until it is aborted.
pub(crate) async fn serve(endpoint: Endpoint, node: Arc<Node>) {
    let page = move |path: String| {
        let node = Arc::clone(&node);
        async move {
            match path.as_str() {
                "/metrics" => Page::ok(CONTENT_TYPE, render(&node).await),
                _ => Page::text(404, "metrics are at /metrics"),
            }
        }
    };
    endpoint.run(page).await;
}
