//! A stale commit that is retried. The commit of offset 5 fails, that of offset 10 succeeds, and then the first is
//! retried: the group is at 5, and the next process handles five records again. That is why `commit_async` never
//! retries: the next commit covers the failed one. The runtime always commits its current progress, never an earlier
//! one.
//!
//! `cargo run -p milena --example stale_commit`; the broker, and the error of the first commit, are in the example.

use std::{collections::BTreeMap, error::Error};

use milena::prelude::*;
use milena_test::TestBroker;
use milena_wire::messages::OffsetCommitRequest;

/// Reaction to a failed commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Retries the same offsets: the mistake.
    Again,
    /// Does nothing: the next commit covers it.
    Nothing,
}

/// Committed offset after a failed commit of 5 and a successful one of 10.
pub async fn committed(then: Then) -> Result<Option<i64>, Box<dyn Error>> {
    let broker = TestBroker::start();
    broker.create_topic("orders", 1);
    broker.produce("orders", 0, (0..10).map(|number: i32| number.to_string()));
    let config = ConsumerConfig::builder(broker.bootstrap_servers())
        .group_id("billing")
        .enable_auto_commit(false);
    let mut consumer = Consumer::new(config)?;
    let partition = TopicPartition::new("orders", 0);
    consumer.assign([partition.clone()])?;
    let at = |offset| {
        let committed = OffsetAndMetadata {
            offset,
            leader_epoch: None,
            metadata: String::new().into(),
        };
        BTreeMap::from([(partition.clone(), committed)])
    };
    broker
        .faults()
        .on::<OffsetCommitRequest>()
        .once()
        .respond_error(milena::ErrorCode::CoordinatorLoadInProgress);
    let first = consumer.commit_offsets_async(at(5))?.await;
    consumer.commit_offsets_async(at(10))?.await?;
    if first.is_err() && then == Then::Again {
        consumer.commit_offsets_async(at(5))?.await?;
    }
    consumer.close().await?;
    Ok(broker.committed("billing", "orders", 0))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    for then in [Then::Again, Then::Nothing] {
        let offset = committed(then).await?.unwrap_or(0);
        let again = 10 - offset;
        println!("the commit of 5 failed, that of 10 did not, then {then:?}: {again} records are handled twice");
    }
    Ok(())
}
