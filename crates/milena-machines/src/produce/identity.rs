//! Who writes: the producer id and its epoch.

use crate::transaction::ProducerEpoch;

#[derive(Debug)]
pub(super) struct Identity {
    pub(super) producer: Option<ProducerEpoch>,
    /// What is to be asked for.
    pub(super) wanted: Option<Init>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Init {
    /// A producer id, whichever.
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

    /// Whose name new batches get; nobody's while another is asked for.
    pub(super) fn current(&self) -> Option<ProducerEpoch> {
        self.producer.filter(|_| self.wanted.is_none())
    }

    /// The next epoch, which a producer without transactions takes by itself. After the last one it needs another id.
    pub(super) fn bump(&mut self) {
        let Some(producer) = &mut self.producer else { return };
        if let Some(epoch) = producer.epoch.checked_add(1) {
            producer.epoch = epoch;
        } else {
            self.producer = None;
            self.wanted = Some(Init::New);
        }
    }
}
