//! Certificates that follow their files.

use std::{sync::Arc, time::Duration};

use tokio::time::{MissedTickBehavior, interval};

use crate::node::Node;

/// The interval at which certificate files are looked at.
const INTERVAL: Duration = Duration::from_secs(10);

/// Runs until it is aborted.
pub(crate) async fn watch(node: Arc<Node>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let node = Arc::clone(&node);
        let reload = move || node.endpoints.iter().for_each(|endpoint| endpoint.reload_certificate());
        let _ = tokio::task::spawn_blocking(reload).await;
    }
}
