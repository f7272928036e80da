//! The drivers of the coordinators: they keep the machines' records in internal topics, answer when those are durable,
//! and wake the machines when a deadline comes.

mod answer;
mod groups;
mod internal_topics;
mod load;
mod own_batch;
mod shards;
mod transactions;
mod wake;

pub(crate) use answer::Answer;
pub(crate) use groups::{Asking, Groups};
pub(crate) use internal_topics::CONSUMER_OFFSETS;
pub(crate) use transactions::{Transactions, append_marker};
pub(crate) use wake::Wake;

use std::sync::Arc;

use crate::node::Node;

/// Waits for deadlines and handles them, until it is aborted.
pub(crate) async fn run(node: Arc<Node>) {
    // What was open when the last broker ended must go on, whether or not somebody asks.
    let loading = Arc::clone(&node);
    let load = move || {
        loading.groups.load_all(&loading);
        loading.transactions.load_all(&loading);
    };
    let _ = tokio::task::spawn_blocking(load).await;
    loop {
        let deadlines = [
            node.groups.handle_timeouts(&node),
            node.transactions.handle_timeouts(&node),
        ];
        let next = deadlines.into_iter().flatten().min();
        node.wake.sleep_until(next, || node.now_ms()).await;
    }
}
