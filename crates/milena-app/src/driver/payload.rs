//! What the machine keeps of a record for the driver.

use std::{cell::RefCell, sync::Arc};

use milena_client::consumer::{ConsumerRecord, RecordRef, RecordRun};
use milena_machines::app::Keyed;

use crate::{
    handler::{Fault, Scope},
    worker::Emission,
};

/// A record on its way through the machine, or a run of them.
#[derive(Debug)]
pub(crate) struct Payload {
    /// Never empty.
    pub(crate) records: RecordRun,
    pub(crate) scope: Scope,
    /// What is to be published for it when the machine says so.
    pub(crate) held: RefCell<Option<Held>>,
}

#[derive(Debug, Clone)]
pub(crate) enum Held {
    Fault(Arc<Fault>),
    Emission(Arc<Emission>),
}

impl Payload {
    pub(crate) fn new(records: RecordRun, scope: &Scope) -> Self {
        Self {
            records,
            scope: Arc::clone(scope),
            held: RefCell::default(),
        }
    }

    pub(crate) fn first(&self) -> ConsumerRecord {
        self.records.clone().into_first()
    }
}

impl Keyed for Payload {
    fn key(&self) -> Option<&[u8]> {
        self.key_at(0)
    }

    fn records(&self) -> u32 {
        u32::try_from(self.records.len()).unwrap_or(u32::MAX)
    }

    fn key_at(&self, place: u32) -> Option<&[u8]> {
        self.records.get(place as usize).as_ref().and_then(RecordRef::key)
    }

    fn split(&mut self, count: u32) -> Option<Self> {
        let rest = self.records.split_off(count as usize);
        Some(Self::new(rest, &self.scope))
    }
}
