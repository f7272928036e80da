//! Partitions that have records and deliver none: the group is well, and the consumer stands still.

use std::{collections::BTreeMap, sync::Arc};

use milena_client::consumer::{RebalanceConsumer, TopicPartition};
use milena_machines::app::{SourceId, WhenStalled};

use super::Engine;
use crate::{error::AppError, times::Waiting};

/// Since when partitions of a source have stood where they stand.
#[derive(Debug, Default)]
pub(super) struct Standing(BTreeMap<TopicPartition, (i64, i64)>);

/// A partition at this moment.
struct Seen {
    partition: TopicPartition,
    /// The next offset that can come.
    end: i64,
    is_paused: bool,
    /// Nothing holds it back, and it has nothing to do.
    is_waiting: bool,
}

impl Seen {
    /// What a poll waits for that can bring records of it. How much there is to read is not known before the first fetch.
    fn waits_for(&self, lag: Option<i64>) -> Waiting {
        match (lag, self.is_paused) {
            (Some(..=0), _) => Waiting::Idle,
            (_, true) => Waiting::Paused,
            (_, false) => Waiting::Fetch,
        }
    }
}

impl Standing {
    /// Whether a partition has stood still for long although there is something to read. Then it has as long again.
    fn is_frozen(&mut self, now_ms: i64, seen: &Seen, lag: i64, stall_ms: i64) -> bool {
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

    /// Looks for them, and does what is to be done about them. Also tells what the next poll waits for.
    pub(super) fn look(&mut self, engine: &Arc<Engine>, source: SourceId, consumer: &mut RebalanceConsumer) -> Waiting {
        let mut waiting = Waiting::Idle;
        let (now_ms, stall_ms, action, all) = engine.waiting(source);
        self.0
            .retain(|partition, _| all.iter().any(|seen| seen.partition == *partition));
        for seen in all {
            let lag = consumer.current_lag(&seen.partition).ok().flatten();
            waiting = waiting.max(seen.waits_for(lag));
            let lag = lag.unwrap_or(0);
            if !self.is_frozen(now_ms, &seen, lag, stall_ms) {
                continue;
            }
            let (partition, offset) = (&seen.partition, seen.end);
            tracing::error!(%partition, offset, lag, ?action, "a partition has records, but none are delivered");
            match action {
                WhenStalled::Report | WhenStalled::Stop => {}
                // What was fetched and what is being fetched is forgotten.
                WhenStalled::Retry => drop(consumer.seek(partition, offset)),
                WhenStalled::End => engine.fail(AppError::Stalled {
                    topic: partition.topic.to_string(),
                    partition: partition.partition,
                    offset,
                    why: format!("{lag} records are there, but none are delivered"),
                }),
            }
        }
        waiting
    }
}

impl Engine {
    fn waiting(&self, source: SourceId) -> (i64, i64, WhenStalled, Vec<Seen>) {
        let state = self.state();
        let config = state.work.config();
        let owned = state.owned.iter().filter(|(_, owned)| owned.source == source);
        let seen = owned.filter_map(|(partition, owned)| {
            let status = state.work.partition_status(owned.id)?;
            let is_paused = state.work.pauses(owned.id)?.iter().next().is_some();
            Some(Seen {
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

    fn seen(end: i64, is_waiting: bool) -> Seen {
        Seen {
            partition: TopicPartition::new("orders", 0),
            end,
            is_paused: false,
            is_waiting,
        }
    }

    #[test]
    fn a_poll_waits_for_what_is_there_and_may_be_fetched() {
        let seen = |is_paused| Seen {
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
    fn only_what_could_move_and_does_not_is_frozen() {
        let mut standing = Standing::default();
        let mut is_frozen = |now_ms, seen: Seen, lag| standing.is_frozen(now_ms, &seen, lag, 100);
        assert!(!is_frozen(0, seen(5, true), 3));
        assert!(!is_frozen(99, seen(5, true), 3));
        assert!(is_frozen(100, seen(5, true), 3));
        // It has as long again.
        assert!(!is_frozen(150, seen(5, true), 3));
        assert!(is_frozen(200, seen(5, true), 3));
        // It moves.
        assert!(!is_frozen(300, seen(6, true), 3));
        // There is nothing to read, then something holds it back.
        assert!(!is_frozen(500, seen(6, true), 0));
        assert!(!is_frozen(700, seen(6, false), 3));
        assert!(!is_frozen(799, seen(6, true), 3));
        assert!(is_frozen(800, seen(6, true), 3));
    }
}
