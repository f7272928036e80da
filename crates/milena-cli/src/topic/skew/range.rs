//! The range of offsets that `milena topic skew` reads.

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use anyhow::Result;
use milena_client::consumer::{Consumer, TopicPartition};

/// Start and end offset by partition.
pub(super) struct Range {
    pub(super) offsets: BTreeMap<TopicPartition, (i64, i64)>,
}

impl Range {
    pub(super) async fn find(
        consumer: &mut Consumer,
        partitions: &[TopicPartition],
        last: Option<u64>,
        since: Option<Duration>,
    ) -> Result<Self> {
        let beginnings = consumer.beginning_offsets(partitions).await?;
        let mut whole = Self {
            offsets: consumer
                .end_offsets(partitions)
                .await?
                .into_iter()
                .map(|(partition, end)| {
                    let beginning = beginnings.get(&partition).copied().unwrap_or(0);
                    (partition, (beginning.min(end), end))
                })
                .collect(),
        };
        if let Some(since) = since {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
            let first_ms = now.saturating_sub(since).as_millis();
            return whole.not_before(consumer, i64::try_from(first_ms)?).await;
        }
        match last {
            Some(last) if last < whole.len() => whole.newest(consumer, last).await,
            _ => {
                whole.offsets.retain(|_, (start, end)| start < end);
                Ok(whole)
            }
        }
    }

    /// Binary search for the timestamp after which there are about `last` records. A fixed number per partition would
    /// make all partitions look even.
    async fn newest(&self, consumer: &mut Consumer, last: u64) -> Result<Self> {
        // At or after `enough_ms` there are enough records; at or after `few_ms` there are too few.
        let (mut enough_ms, mut few_ms) = (0, i64::MAX);
        let mut range = Self {
            offsets: self.offsets.clone(),
        };
        while few_ms - enough_ms > 1 {
            let middle_ms = enough_ms + (few_ms - enough_ms) / 2;
            let tried = self.not_before(consumer, middle_ms).await?;
            if tried.len() < last {
                few_ms = middle_ms;
                continue;
            }
            enough_ms = middle_ms;
            range = tried;
            // A few more records do no harm and save requests.
            if range.len() <= last + last / 20 {
                break;
            }
        }
        Ok(range)
    }

    /// The part of the range at or after a timestamp.
    async fn not_before(&self, consumer: &mut Consumer, first_ms: i64) -> Result<Self> {
        let times = self.offsets.keys().map(|partition| (partition.clone(), first_ms));
        let found = consumer.offsets_for_times(times).await?;
        let offsets = self.offsets.iter().filter_map(|(partition, (start, end))| {
            let first = found.get(partition)?.offset.max(*start);
            (first < *end).then(|| (partition.clone(), (first, *end)))
        });
        Ok(Self {
            offsets: offsets.collect(),
        })
    }

    /// The maximum number of records: some offsets may have none.
    fn len(&self) -> u64 {
        self.offsets.values().map(|(start, end)| end.abs_diff(*start)).sum()
    }
}
