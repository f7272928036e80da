//! Transactional writes that wait for the coordinator's word (KIP-890).
//!
//! Between the coordinator's yes and the append, the transaction may end. Then the records would open one that nobody
//! ends. So a guard is taken before the coordinator is asked, and the marker of an end takes it back.

use std::collections::BTreeMap;

use milena_wire::records::BatchHeader;

/// Shows that the coordinator was asked about a producer after its last transaction ended here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerificationGuard(u64);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Verifications {
    by_id: BTreeMap<i64, Verification>,
    given: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verification {
    guard: VerificationGuard,
    began_ms: i64,
    epoch: i16,
    /// The first batch that asked: those behind it may overtake it, but not be written before it.
    lowest_sequence: i32,
    takes_new_epochs: bool,
}

impl Verifications {
    /// All batches that ask before the answer share one guard.
    pub(super) fn begin(&mut self, header: &BatchHeader, takes_new_epochs: bool, now_ms: i64) -> VerificationGuard {
        let given = &mut self.given;
        let verification = self.by_id.entry(header.producer_id).or_insert_with(|| {
            *given += 1;
            Verification {
                guard: VerificationGuard(*given),
                began_ms: now_ms,
                epoch: header.producer_epoch,
                lowest_sequence: header.base_sequence,
                takes_new_epochs,
            }
        });
        let is_newer = header.producer_epoch > verification.epoch;
        let is_earlier =
            header.producer_epoch == verification.epoch && header.base_sequence < verification.lowest_sequence;
        if is_newer || is_earlier {
            verification.epoch = header.producer_epoch;
            verification.lowest_sequence = header.base_sequence;
        }
        verification.guard
    }

    pub(super) fn holds(&self, producer_id: i64, guard: Option<VerificationGuard>) -> bool {
        let held = self.by_id.get(&producer_id).map(|verification| verification.guard);
        guard.is_some() && guard == held
    }

    /// The sequence that must come first, if the one of this batch must not.
    pub(super) fn expected_before(&self, header: &BatchHeader, has_batches: bool) -> Option<i32> {
        let verification = self.by_id.get(&header.producer_id)?;
        // With new epochs for every transaction, a producer that is not known here has lost what came before.
        let must_be_first = verification.takes_new_epochs && !has_batches;
        let expected = if must_be_first { 0 } else { verification.lowest_sequence };
        let is_early = header.base_sequence > expected;
        is_early.then_some(expected)
    }

    /// A transactional batch is in the log: it has opened the transaction, or ended it.
    pub(super) fn end(&mut self, header: &BatchHeader) {
        let is_for_next = self.by_id.get(&header.producer_id).is_some_and(|verification| {
            // The next transaction has the epoch that this marker brings: it was asked for after the end.
            let is_next = header.attributes.is_control() && verification.epoch == header.producer_epoch;
            verification.takes_new_epochs && is_next
        });
        if header.attributes.is_transactional() && !is_for_next {
            self.by_id.remove(&header.producer_id);
        }
    }

    pub(super) fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.by_id
            .retain(|_, verification| now_ms.saturating_sub(verification.began_ms) < expiration_ms);
    }
}
