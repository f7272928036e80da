//! Bugs that a sender could have, put between it and the network: the sender itself has no switch for them.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::{
    produce::{BatchId, ControlCall, ControlRequest, ControlResponse, SentBatch, Slot, Stamp, WriteStatus},
    transaction::ProducerEpoch,
};
use milena_wire::messages::{EndTxnResponse, InitProducerIdResponse};

use super::{Batch, WriterSettings};
use crate::{Mutation, clients::Io};

#[derive(Debug, Default)]
pub(super) struct Mistakes {
    mutation: Option<Mutation>,
    /// The next sequence number of a partition, if each attempt gets one of its own.
    next: BTreeMap<(Slot, ProducerEpoch), i32>,
    /// Batches that were sent and did not arrive.
    lost: BTreeSet<BatchId>,
    was_fenced: bool,
    /// An `EndTxn` had no response.
    has_lost_end: bool,
}

impl Mistakes {
    pub(super) fn new(mutation: Option<Mutation>, was_fenced: bool) -> Self {
        Self {
            mutation,
            was_fenced,
            ..Self::default()
        }
    }

    /// The stamp of the batch.
    pub(super) fn stamp(&mut self, sent: &SentBatch, records: usize) -> Stamp {
        if self.mutation != Some(Mutation::NumberRetriesAnew) {
            return sent.stamp;
        }
        let producer = ProducerEpoch {
            producer_id: sent.stamp.producer_id,
            epoch: sent.stamp.producer_epoch,
        };
        let next = self.next.entry((sent.slot, producer)).or_default();
        let base_sequence = *next;
        *next += records as i32;
        Stamp {
            base_sequence,
            ..sent.stamp
        }
    }

    pub(super) fn note_lost(&mut self, batch: BatchId) {
        self.lost.insert(batch);
    }

    /// A newer batch takes the topic_partition of one that is retried.
    pub(super) fn overtake(&mut self, sent: &SentBatch, batches: &mut BTreeMap<BatchId, Batch>) {
        let was_lost = self.lost.remove(&sent.id);
        if self.mutation != Some(Mutation::NewerOvertakesRepeated) || !was_lost {
            return;
        }
        let Some(ours) = batches.get(&sent.id).cloned() else {
            return;
        };
        let newer = batches.range_mut(BatchId(sent.id.0 + 1)..);
        let mut newer = newer.filter(|(_, batch)| batch.slot == ours.slot && batch.values.len() == ours.values.len());
        let Some((_, theirs)) = newer.next() else { return };
        let values = std::mem::replace(&mut theirs.values, ours.values);
        if let Some(ours) = batches.get_mut(&sent.id) {
            ours.values = values;
        }
    }

    /// The result that the application gets for a failed batch.
    pub(super) fn status(&self, status: WriteStatus) -> WriteStatus {
        match self.mutation {
            Some(Mutation::DenyWhatIsInFlight) => WriteStatus::NotWritten,
            _ => status,
        }
    }

    /// The interpretation of an `EndTxn` without a response.
    pub(super) fn lost_end(&mut self, call: &ControlCall) -> Option<ControlResponse> {
        let ControlRequest::EndTxn(request) = &call.request else {
            return None;
        };
        let is_mistaken = matches!(
            self.mutation,
            Some(Mutation::LostEndIsCommit | Mutation::LostEndIsAbort)
        );
        if !is_mistaken || !request.committed {
            return None;
        }
        self.has_lost_end = true;
        Some(ControlResponse::EndTxn(EndTxnResponse {
            producer_id: request.producer_id,
            producer_epoch: request.producer_epoch + 1,
            ..Default::default()
        }))
    }

    pub(super) fn takes_for_aborted(&mut self) -> bool {
        std::mem::take(&mut self.has_lost_end) && self.mutation == Some(Mutation::LostEndIsAbort)
    }

    /// A fenced producer continues as its successor, without a request.
    pub(super) fn known_id(
        &self,
        settings: &WriterSettings,
        io: &Io<'_>,
        call: &ControlCall,
    ) -> Option<ControlResponse> {
        let is_mistaken = self.mutation == Some(Mutation::ReuseEpochAfterFencing) && self.was_fenced;
        if !is_mistaken || !matches!(call.request, ControlRequest::InitProducerId(_)) {
            return None;
        }
        let (producer_id, producer_epoch) = io.checks.writes.producer(settings.copying.as_ref()?.input)?;
        Some(ControlResponse::InitProducerId(InitProducerIdResponse {
            producer_id,
            producer_epoch,
            ..Default::default()
        }))
    }
}
