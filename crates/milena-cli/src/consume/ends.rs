//! Detection of the end of all partitions, for `--exit-at-end`.

use std::collections::BTreeMap;

use anyhow::Result;
use milena_client::consumer::{Consumer, TopicPartition};

/// The end offsets of partitions when they were first seen. Later records do not count, or a busy topic would never
/// end.
#[derive(Default)]
pub(crate) struct Ends {
    known: BTreeMap<TopicPartition, i64>,
}

impl Ends {
    /// Whether all assigned partitions are read to their end offsets.
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
        // A group may not have assigned partitions yet.
        Ok(!assignment.is_empty())
    }
}
