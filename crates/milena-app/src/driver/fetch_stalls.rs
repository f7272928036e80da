//! Stalled fetches: partitions with lag that deliver no records, although the group is healthy.

use std::{collections::BTreeMap, sync::Arc};

use milena_client::consumer::{RebalanceConsumer, TopicPartition};
use milena_machines::app::{SourceId, WhenStalled};

use super::Engine;
use crate::{error::AppError, times::Waiting};

/// The end offset of each partition of a source, and since when it has not moved.
#[derive(Debug, Default)]
pub(super) struct FetchWatch(BTreeMap<TopicPartition, (i64, i64)>);

/// The state of a partition.
struct FetchState {
    partition: TopicPartition,
    /// The next offset that can arrive.
    end: i64,
    is_paused: bool,
    /// It is not paused and has no records.
    is_waiting: bool,
}

impl FetchState {
    /// The kind of time that a poll spends waiting for its records. The lag is unknown before the first fetch.
    fn waits_for(&self, lag: Option<i64>) -> Waiting {
        match (lag, self.is_paused) {
            (Some(..=0), _) => Waiting::Idle,
            (_, true) => Waiting::Paused,
            (_, false) => Waiting::Fetch,
        }
    }
}

impl FetchWatch {
    /// Whether a partition with lag has not moved for `stall_ms`. The next report follows after as long again.
    fn is_stalled(&mut self, now_ms: i64, seen: &FetchState, lag: i64, stall_ms: i64) -> bool {
        let since = self.0.entry(seen.partition.clone()).or_insert((seen.end, now_ms));
        if since.0 != seen.end || lag <= 0 || !seen.is_waiting {
            *since = (seen.end, now_ms);
        }
        if now_ms.saturating_sub(since.1) < stall_ms {
            return false;
        }
        since.1 = now_ms;
        true
    }

    /// Reports stalled fetches and acts as the policy says. Returns the kind of time that the next poll spends.
    pub(super) fn check(
        &mut self,
        engine: &Arc<Engine>,
        source: SourceId,
        consumer: &mut RebalanceConsumer,
    ) -> Waiting {
        let mut waiting = Waiting::Idle;
        let (now_ms, stall_ms, action, all) = engine.fetch_states(source);
        self.0
            .retain(|partition, _| all.iter().any(|seen| seen.partition == *partition));
        for seen in all {
            let lag = consumer.current_lag(&seen.partition).ok().flatten();
            waiting = waiting.max(seen.waits_for(lag));
            let lag = lag.unwrap_or(0);
            if !self.is_stalled(now_ms, &seen, lag, stall_ms) {
                continue;
            }
            let (partition, offset) = (&seen.partition, seen.end);
            tracing::error!(event = "fetch_stalled", %partition, offset, lag, ?action,
                "{partition} has a lag of {lag} records at offset {offset}, but delivers none");
            match action {
                WhenStalled::Report | WhenStalled::Stop => {}
                // The seek drops fetches that are buffered or in flight.
                WhenStalled::Retry => drop(consumer.seek(partition, offset)),
                WhenStalled::End => engine.fail(AppError::Stalled {
                    topic: partition.topic.to_string(),
                    partition: partition.partition,
                    offset,
                    why: format!("the lag is {lag} records, but none are delivered"),
                }),
            }
        }
        waiting
    }
}

impl Engine {
    fn fetch_states(&self, source: SourceId) -> (i64, i64, WhenStalled, Vec<FetchState>) {
        let state = self.state();
        let config = state.scheduler.config();
        let owned = state.owned.iter().filter(|(_, owned)| owned.source == source);
        let seen = owned.filter_map(|(partition, owned)| {
            let status = state.scheduler.partition_status(owned.id)?;
            let is_paused = state.scheduler.pauses(owned.id)?.iter().next().is_some();
            Some(FetchState {
                partition: partition.clone(),
                end: status.end,
                is_paused,
                is_waiting: status.records == 0 && !is_paused,
            })
        });
        (
            self.clock.now_ms(),
            config.stall_ms,
            config.when_stalled,
            seen.collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(end: i64, is_waiting: bool) -> FetchState {
        FetchState {
            partition: TopicPartition::new("orders", 0),
            end,
            is_paused: false,
            is_waiting,
        }
    }

    #[test]
    fn a_poll_waits_for_what_is_there_and_may_be_fetched() {
        let seen = |is_paused| FetchState {
            is_paused,
            ..seen(5, true)
        };
        assert_eq!(seen(false).waits_for(Some(3)), Waiting::Fetch);
        assert_eq!(seen(false).waits_for(None), Waiting::Fetch);
        assert_eq!(seen(false).waits_for(Some(0)), Waiting::Idle);
        assert_eq!(seen(true).waits_for(Some(3)), Waiting::Paused);
        assert_eq!(seen(true).waits_for(Some(0)), Waiting::Idle);
        assert!(Waiting::Fetch > Waiting::Paused && Waiting::Paused > Waiting::Idle);
    }

    #[test]
    fn only_what_could_move_and_does_not_is_stalled() {
        let mut watch = FetchWatch::default();
        let mut is_stalled = |now_ms, seen: FetchState, lag| watch.is_stalled(now_ms, &seen, lag, 100);
        assert!(!is_stalled(0, seen(5, true), 3));
        assert!(!is_stalled(99, seen(5, true), 3));
        assert!(is_stalled(100, seen(5, true), 3));
        // The next report follows after as long again.
        assert!(!is_stalled(150, seen(5, true), 3));
        assert!(is_stalled(200, seen(5, true), 3));
        // It moves.
        assert!(!is_stalled(300, seen(6, true), 3));
        // No lag, then paused.
        assert!(!is_stalled(500, seen(6, true), 0));
        assert!(!is_stalled(700, seen(6, false), 3));
        assert!(!is_stalled(799, seen(6, true), 3));
        assert!(is_stalled(800, seen(6, true), 3));
    }
}
