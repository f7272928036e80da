//! Timeouts of the tests. They are long, because only a failing test waits for them.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use milena_client::consumer::Consumer;

pub const PATIENCE: Duration = Duration::from_secs(240);
pub const SHORT: Duration = Duration::from_millis(100);

/// Panics with a description if the future does not complete in time.
pub async fn in_time<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .unwrap_or_else(|_| panic!("in vain: {what}"))
}

/// Polls until at least `count` records have arrived, and maps each.
pub async fn read<T>(
    consumer: &mut Consumer,
    count: usize,
    make: impl Fn(milena_client::consumer::RecordRef<'_>) -> T,
) -> Vec<T> {
    let mut made = vec![];
    let deadline = Instant::now() + PATIENCE;
    while made.len() < count {
        assert!(
            Instant::now() < deadline,
            "{} of {count} records came; positions: {:?}",
            made.len(),
            consumer.assignment()
        );
        let records = consumer.poll(SHORT).await.unwrap();
        made.extend(records.iter().map(&make));
    }
    made
}

/// Polls until the condition holds; the records are ignored.
pub async fn poll_until(consumer: &mut Consumer, what: &str, done: impl Fn(&Consumer) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done(consumer) {
        assert!(
            Instant::now() < deadline,
            "in vain: {what}; assigned: {:?}",
            consumer.assignment()
        );
        consumer.poll(SHORT).await.unwrap();
    }
}
