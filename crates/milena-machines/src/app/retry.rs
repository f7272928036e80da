//! Retries: decides what follows when a record fails.

use super::{DeadLetterReason, Exhausted, Failure, RetryOrdering, RetryPolicy, StopReason};
use crate::Random;

/// The attempts with a record, including the one that failed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// Attempts in its current topic.
    pub in_place: u32,
    /// The retry topic that it is in, or has come back from.
    pub retry_topic: Option<u8>,
    /// In the held-keys topic: the number of delays that it has waited for.
    pub rounds: Option<u8>,
    pub first_failed_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The next attempt, in place.
    Again {
        due_ms: i64,
    },
    /// To a retry topic.
    RetryTopic {
        index: u8,
        due_ms: i64,
    },
    /// To the held-keys topic, so that its key stays in order.
    Hold {
        due_ms: i64,
    },
    /// The next attempt in the held-keys topic, after the next delay.
    Round {
        due_ms: i64,
    },
    DeadLetter(DeadLetterReason),
    /// The record counts as done.
    Skip,
    /// Its partition stops.
    Stop(StopReason),
}

/// Decides about a failure that counts as an attempt. Failures of a dependency whose breaker is open do not.
pub fn decide(policy: &RetryPolicy, tried: Attempts, failure: Failure, now_ms: i64, random: &mut Random) -> Decision {
    match failure {
        Failure::Fatal => return Decision::Stop(StopReason::Fatal),
        Failure::Poison => return exhausted(policy, DeadLetterReason::Poison),
        Failure::Retry | Failure::Dependency(_) => {}
    }
    let attempts = match (tried.retry_topic, tried.rounds) {
        (None, None | Some(0)) => policy.attempts,
        _ => policy.delayed_attempts,
    };
    let elapsed_ms = now_ms.saturating_sub(tried.first_failed_ms);
    let too_late = policy.elapsed_ms_max.is_some_and(|most| elapsed_ms >= most);
    if tried.in_place < attempts && !too_late {
        let due_ms = now_ms.saturating_add(backoff_ms(policy, tried.in_place, random));
        return Decision::Again { due_ms };
    }
    let waited = tried.rounds.unwrap_or(0);
    let index = tried.retry_topic.map_or(waited, |tier| tier.saturating_add(1));
    let delay_ms = policy.delays_ms.get(usize::from(index));
    let due_ms = delay_ms.map(|delay_ms| now_ms.saturating_add(*delay_ms));
    match due_ms {
        Some(due_ms) if tried.rounds.is_some() => Decision::Round { due_ms },
        Some(due_ms) if policy.ordering == RetryOrdering::HoldKey => Decision::Hold { due_ms },
        Some(due_ms) => Decision::RetryTopic { index, due_ms },
        None if too_late && tried.in_place < attempts => exhausted(policy, DeadLetterReason::Elapsed),
        None => exhausted(policy, DeadLetterReason::Attempts),
    }
}

/// The backoff: doubles with each attempt up to the maximum. The jitter separates records that failed together.
fn backoff_ms(policy: &RetryPolicy, tries: u32, random: &mut Random) -> i64 {
    let doubled = 1_i64.checked_shl(tries.saturating_sub(1).min(40)).unwrap_or(1);
    let plain = policy.first_ms.max(0).saturating_mul(doubled).min(policy.max_ms.max(0));
    let spread = plain / 100 * i64::from(policy.jitter_percent.min(100))
        + plain % 100 * i64::from(policy.jitter_percent.min(100)) / 100;
    let width = u64::try_from(spread.saturating_mul(2).saturating_add(1)).unwrap_or(1);
    let moved = plain - spread + i64::try_from(random.below(width)).unwrap_or(0);
    moved.clamp(0, policy.max_ms.max(0))
}

pub(super) fn exhausted(policy: &RetryPolicy, why: DeadLetterReason) -> Decision {
    match policy.exhausted {
        Exhausted::DeadLetter => Decision::DeadLetter(why),
        Exhausted::Skip => Decision::Skip,
        Exhausted::Stop => Decision::Stop(StopReason::Exhausted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::BreakerId;

    fn policy() -> RetryPolicy {
        RetryPolicy {
            delays_ms: RetryPolicy::default_delays(),
            exhausted: Exhausted::DeadLetter,
            ..RetryPolicy::default()
        }
    }

    fn tried(in_place: u32, tier: Option<u8>) -> Attempts {
        Attempts {
            in_place,
            retry_topic: tier,
            rounds: None,
            first_failed_ms: 0,
        }
    }

    fn decided(policy: &RetryPolicy, tried: Attempts, failure: Failure) -> Decision {
        decide(policy, tried, failure, 1_000, &mut Random::new(1))
    }

    #[test]
    fn the_first_attempt_counts() {
        let policy = policy();
        for in_place in 1..4 {
            let decision = decided(&policy, tried(in_place, None), Failure::Retry);
            assert!(matches!(decision, Decision::Again { .. }), "{decision:?}");
        }
        let decision = decided(&policy, tried(4, None), Failure::Dependency(BreakerId(0)));
        let first = Decision::RetryTopic {
            index: 0,
            due_ms: 61_000,
        };
        assert_eq!(decision, first);
    }

    #[test]
    fn retry_topics_follow_each_other_and_then_come_the_dead_letters() {
        let policy = policy();
        for (tier, due_ms) in [(0, 301_000), (1, 901_000)] {
            let index = tier + 1;
            let decision = decided(&policy, tried(1, Some(tier)), Failure::Retry);
            assert_eq!(decision, Decision::RetryTopic { index, due_ms });
        }
        let last = decided(&policy, tried(1, Some(2)), Failure::Retry);
        assert_eq!(last, Decision::DeadLetter(DeadLetterReason::Attempts));
        // A header may claim any retry topic.
        let claimed = decided(&policy, tried(1, Some(u8::MAX)), Failure::Retry);
        assert_eq!(claimed, Decision::DeadLetter(DeadLetterReason::Attempts));
    }

    #[test]
    fn what_keeps_its_key_in_order_waits_for_the_same_delays_in_one_place() {
        let policy = RetryPolicy {
            ordering: RetryOrdering::HoldKey,
            ..policy()
        };
        let held = |in_place, rounds| {
            let tried = Attempts {
                rounds: Some(rounds),
                ..tried(in_place, None)
            };
            decided(&policy, tried, Failure::Retry)
        };
        let moved = decided(&policy, tried(4, None), Failure::Retry);
        assert_eq!(moved, Decision::Hold { due_ms: 61_000 });
        // Records behind it have as many attempts as in their own topic before they wait for the first delay.
        assert!(matches!(held(3, 0), Decision::Again { .. }));
        assert_eq!(held(4, 0), Decision::Round { due_ms: 61_000 });
        assert_eq!(held(1, 1), Decision::Round { due_ms: 301_000 });
        assert_eq!(held(1, 2), Decision::Round { due_ms: 901_000 });
        assert_eq!(held(1, 3), Decision::DeadLetter(DeadLetterReason::Attempts));
        assert_eq!(held(1, u8::MAX), Decision::DeadLetter(DeadLetterReason::Attempts));
    }

    #[test]
    fn poison_is_never_tried_again_and_fatal_stops() {
        let policy = policy();
        let poison = decided(&policy, tried(1, None), Failure::Poison);
        assert_eq!(poison, Decision::DeadLetter(DeadLetterReason::Poison));
        let fatal = decided(&policy, tried(1, None), Failure::Fatal);
        assert_eq!(fatal, Decision::Stop(StopReason::Fatal));
    }

    #[test]
    fn without_dead_letters_the_partition_stops_or_the_record_is_skipped() {
        let mut policy = RetryPolicy::default();
        let stop = decided(&policy, tried(4, None), Failure::Retry);
        assert_eq!(stop, Decision::Stop(StopReason::Exhausted));
        policy.exhausted = Exhausted::Skip;
        assert_eq!(decided(&policy, tried(4, None), Failure::Retry), Decision::Skip);
    }

    #[test]
    fn what_fails_for_too_long_is_not_tried_again_in_its_place() {
        let policy = RetryPolicy {
            elapsed_ms_max: Some(1_000),
            delays_ms: vec![],
            ..policy()
        };
        let decision = decided(&policy, tried(1, None), Failure::Retry);
        assert_eq!(decision, Decision::DeadLetter(DeadLetterReason::Elapsed));
    }

    #[test]
    fn waits_double_up_to_the_longest_and_are_spread() {
        let policy = policy();
        let mut random = Random::new(5);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..200 {
            for (tries, plain) in [
                (1, 100),
                (2, 200),
                (3, 400),
                (7, 6_400),
                (9, 10_000),
                (u32::MAX, 10_000),
            ] {
                let wait = backoff_ms(&policy, tries, &mut random);
                assert!(
                    wait * 4 >= plain * 3 && wait * 4 <= plain * 5 && wait <= 10_000,
                    "{wait} for {plain}"
                );
                seen.insert(wait);
            }
        }
        assert!(seen.len() > 100);
    }
}
