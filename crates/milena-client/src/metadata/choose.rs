//! Which broker to ask when any will do.

use milena_machines::Random;

use crate::net::Status;

/// What is known of a broker that could be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) status: Status,
    /// Requests that it has not answered.
    pub(super) load: usize,
}

impl Candidate {
    /// The smaller the better. A connection that is there is best, the one with the least to do. One that is being made
    /// comes behind one that could be made: it may be for a host that never answers.
    fn rank(&self) -> (u8, i64) {
        let load = i64::try_from(self.load).unwrap_or(i64::MAX);
        match self.status {
            Status::Ready => (0, load),
            Status::Unconnected => (1, load),
            Status::Connecting => (2, load),
            Status::BackingOff { until_ms } => (3, until_ms),
            Status::Closed => (4, 0),
        }
    }
}

/// The place of the best; of equals, each is as likely as the others.
pub(super) fn choose(candidates: &[Candidate], random: &mut Random) -> Option<usize> {
    let best = candidates.iter().map(Candidate::rank).min()?;
    let equals = candidates
        .iter()
        .enumerate()
        .filter(|(_, candidate)| candidate.rank() == best);
    let equals: Vec<usize> = equals.map(|(place, _)| place).collect();
    let pick = usize::try_from(random.below(equals.len() as u64)).unwrap_or(0);
    equals.get(pick).copied()
}

/// Whether none of them can be reached for now.
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
        assert_eq!(choose(&all, &mut random), Some(4));
        assert_eq!(choose(&all[..3], &mut random), Some(2));
        assert_eq!(choose(&all[..2], &mut random), Some(1));
        assert_eq!(choose(&all[..1], &mut random), Some(0));
        assert_eq!(choose(&[], &mut random), None);
    }

    #[test]
    fn of_those_that_failed_the_first_to_come_back_is_best() {
        let sooner = candidate(Status::BackingOff { until_ms: 60 }, 9);
        assert_eq!(choose(&[candidate(OFF, 0), sooner], &mut Random::new(1)), Some(1));
    }

    #[test]
    fn equals_are_all_chosen_at_times() {
        let mut random = Random::new(1);
        let all = [candidate(Status::Unconnected, 0); 3];
        let chosen: BTreeSet<_> = (0..100).filter_map(|_| choose(&all, &mut random)).collect();
        assert_eq!(chosen.len(), 3);
    }

    #[test]
    fn nobody_is_not_a_failure() {
        assert!(!all_failing(&[]));
        assert!(all_failing(&[candidate(OFF, 0), candidate(OFF, 1)]));
        assert!(!all_failing(&[candidate(OFF, 0), candidate(Status::Connecting, 1)]));
    }
}
