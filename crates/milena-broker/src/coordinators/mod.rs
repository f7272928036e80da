//! The drivers of the coordinators: they store the machines' records in internal topics, send replies when those are
//! durable, and wake the machines at their deadlines.

mod deadline_timer;
mod groups;
mod internal_topics;
mod load;
mod own_batch;
mod reply;
mod shards;
mod transactions;

pub(crate) use deadline_timer::DeadlineTimer;
pub(crate) use groups::{Groups, RequestSource};
pub(crate) use internal_topics::CONSUMER_OFFSETS;
pub(crate) use reply::PendingReply;
pub(crate) use transactions::{Transactions, append_marker};

use std::sync::Arc;

use crate::node::Node;

/// Waits for deadlines and handles them, until it is aborted.
pub(crate) async fn run(node: Arc<Node>) {
    // Transactions that were open when the last broker ended must go on without a request.
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
        node.deadline_timer.sleep_until(next, || node.now_ms()).await;
    }
}
