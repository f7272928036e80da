//! The choice of a broker for a request that any broker can serve.

use milena_machines::Random;

use crate::net::Status;

/// A broker that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) status: Status,
    /// Requests in the queue and in flight.
    pub(super) load: usize,
}

impl Candidate {
    /// The rank: lower is better. Ready connections come first, by load. A connecting one ranks below an unconnected
    /// one, because its host may never respond.
    fn rank(&self, now_ms: i64) -> (u8, i64) {
        let load = i64::try_from(self.load).unwrap_or(i64::MAX);
        match self.status {
            Status::Ready => (0, load),
            Status::Unconnected => (1, load),
            Status::BackingOff { until_ms } if until_ms <= now_ms => (2, load),
            Status::Connecting => (3, load),
            Status::BackingOff { until_ms } => (4, until_ms),
            Status::Closed => (5, 0),
        }
    }
}

/// Returns the index of the best candidate. Ties are broken at random.
pub(super) fn choose(candidates: &[Candidate], now_ms: i64, random: &mut Random) -> Option<usize> {
    let ranks: Vec<_> = candidates.iter().map(|candidate| candidate.rank(now_ms)).collect();
    let best = ranks.iter().min()?;
    let equals: Vec<usize> = (0..)
        .zip(&ranks)
        .filter(|(_, rank)| *rank == best)
        .map(|(index, _)| index)
        .collect();
    let pick = usize::try_from(random.below(equals.len() as u64)).unwrap_or(0);
    equals.get(pick).copied()
}

/// Whether the last attempt to connect failed for all candidates.
pub(super) fn all_failing(candidates: &[Candidate]) -> bool {
    let failing = |candidate: &Candidate| matches!(candidate.status, Status::BackingOff { .. });
    !candidates.is_empty() && candidates.iter().all(failing)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn candidate(status: Status, load: usize) -> Candidate {
        Candidate { status, load }
    }

    const OFF: Status = Status::BackingOff { until_ms: 70 };

    #[test]
    fn a_ready_connection_with_little_to_do_is_best() {
        let mut random = Random::new(1);
        let all = [
            candidate(OFF, 0),
            candidate(Status::Connecting, 0),
            candidate(Status::Unconnected, 0),
            candidate(Status::Ready, 5),
            candidate(Status::Ready, 2),
        ];
        assert_eq!(choose(&all, 0, &mut random), Some(4));
        assert_eq!(choose(&all[..3], 0, &mut random), Some(2));
        assert_eq!(choose(&all[..2], 0, &mut random), Some(1));
        assert_eq!(choose(&all[..1], 0, &mut random), Some(0));
        assert_eq!(choose(&[], 0, &mut random), None);
    }

    #[test]
    fn of_those_that_failed_the_first_to_come_back_is_best() {
        let sooner = candidate(Status::BackingOff { until_ms: 60 }, 9);
        assert_eq!(choose(&[candidate(OFF, 0), sooner], 0, &mut Random::new(1)), Some(1));
        // Its backoff is over, while the connecting one may never get ready.
        let connecting = candidate(Status::Connecting, 0);
        assert_eq!(choose(&[connecting, sooner], 59, &mut Random::new(1)), Some(0));
        assert_eq!(choose(&[connecting, sooner], 60, &mut Random::new(1)), Some(1));
    }

    #[test]
    fn equals_are_all_chosen_at_times() {
        let mut random = Random::new(1);
        let all = [candidate(Status::Unconnected, 0); 3];
        let chosen: BTreeSet<_> = (0..100).filter_map(|_| choose(&all, 0, &mut random)).collect();
        assert_eq!(chosen.len(), 3);
    }

    #[test]
    fn no_candidates_is_not_a_failure() {
        assert!(!all_failing(&[]));
        assert!(all_failing(&[candidate(OFF, 0), candidate(OFF, 1)]));
        assert!(!all_failing(&[candidate(OFF, 0), candidate(Status::Connecting, 1)]));
    }
}
