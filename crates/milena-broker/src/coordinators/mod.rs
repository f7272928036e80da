//! The drivers of the coordinators: they keep the machines' records in internal topics, answer when those are durable,
//! and wake the machines when a deadline comes.

mod groups;
mod internal_topics;
mod load;
mod own_batch;
mod wake;

pub(crate) use groups::{Asking, GroupAnswer, Groups};
pub(crate) use internal_topics::CONSUMER_OFFSETS;
pub(crate) use wake::Wake;

use std::sync::Arc;

use crate::node::Node;

/// Waits for deadlines and handles them, until it is aborted.
pub(crate) async fn run(node: Arc<Node>) {
    // What was open when the last broker ended must go on, whether or not somebody asks.
    let loading = Arc::clone(&node);
    let _ = tokio::task::spawn_blocking(move || loading.groups.load_all(&loading)).await;
    loop {
        let next = node.groups.handle_timeouts(&node);
        node.wake.sleep_until(next, || node.now_ms()).await;
    }
}
