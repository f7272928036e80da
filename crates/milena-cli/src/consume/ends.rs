//! When everything is read.

use std::collections::BTreeMap;

use anyhow::Result;
use milena_client::consumer::{Consumer, TopicPartition};

/// Where partitions ended when they were first looked at. What comes later is not waited for, or a busy topic would never
/// end.
#[derive(Default)]
pub(crate) struct Ends {
    known: BTreeMap<TopicPartition, i64>,
}

impl Ends {
    /// Whether all partitions that we have are read to their ends.
    pub(crate) async fn are_reached(&mut self, consumer: &mut Consumer) -> Result<bool> {
        let assignment = consumer.assignment();
        let new: Vec<_> = assignment
            .iter()
            .filter(|partition| !self.known.contains_key(partition))
            .collect();
        if !new.is_empty() {
            self.known.extend(consumer.end_offsets(new).await?);
        }
        for partition in &assignment {
            let position = consumer.position(partition).await?.offset;
            if self.known.get(partition).is_none_or(|end| position < *end) {
                return Ok(false);
            }
        }
        // A group may not have given us any yet.
        Ok(!assignment.is_empty())
    }
}
