//! Producer id and epoch.

use crate::transaction::ProducerEpoch;

#[derive(Debug)]
pub(super) struct Identity {
    pub(super) producer: Option<ProducerEpoch>,
    /// The request for another id or epoch, if one is needed.
    pub(super) wanted: Option<Init>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Init {
    /// Any producer id.
    New,
    /// The next epoch of this producer.
    Next,
}

impl Identity {
    pub(super) fn new(needs_id: bool) -> Self {
        Self {
            producer: None,
            wanted: needs_id.then_some(Init::New),
        }
    }

    /// The identity for new batches; `None` while another is requested.
    pub(super) fn current(&self) -> Option<ProducerEpoch> {
        self.producer.filter(|_| self.wanted.is_none())
    }

    /// Bumps the epoch, which a producer without transactions may do by itself. After the last epoch it needs another
    /// id.
    pub(super) fn bump(&mut self) {
        let Some(producer) = &mut self.producer else {
            return; // An id is requested already.
        };
        if let Some(epoch) = producer.epoch.checked_add(1) {
            producer.epoch = epoch;
        } else {
            self.producer = None;
            self.wanted = Some(Init::New);
        }
    }
}
