//! What the machine keeps of a record for the driver.

use std::{cell::RefCell, sync::Arc};

use milena_client::consumer::ConsumerRecord;
use milena_machines::app::Keyed;

use crate::{
    handler::{Fault, TopicScope},
    lane::Emission,
};

/// A record on its way through the machine.
#[derive(Debug)]
pub(crate) struct Payload {
    pub(crate) record: ConsumerRecord,
    pub(crate) scope: Arc<TopicScope>,
    /// What is to be published for it when the machine says so.
    pub(crate) held: RefCell<Option<Held>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Held {
    Fault(Arc<Fault>),
    Emission(Arc<Emission>),
}

impl Keyed for Payload {
    fn key(&self) -> Option<&[u8]> {
        self.record.key()
    }
}
