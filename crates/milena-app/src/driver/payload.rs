//! The payload that the scheduler keeps of a record for the driver.

use std::{cell::RefCell, sync::Arc};

use milena_client::consumer::{ConsumerRecord, RecordRef, RecordRun};
use milena_machines::app::Keyed;

use crate::{
    handler::{Fault, Scope},
    worker::Emission,
};

/// A record that the scheduler has, or a run of them.
#[derive(Debug)]
pub(crate) struct Payload {
    /// Never empty.
    pub(crate) records: RecordRun,
    pub(crate) scope: Scope,
    /// Published when the scheduler says so.
    pub(crate) pending: RefCell<Option<PendingOutput>>,
}

/// The output of a handler, or the error for a failure record, that is not published yet.
#[derive(Debug, Clone)]
pub(crate) enum PendingOutput {
    Fault(Arc<Fault>),
    Emission(Arc<Emission>),
}

impl Payload {
    pub(crate) fn new(records: RecordRun, scope: &Scope) -> Self {
        Self {
            records,
            scope: Arc::clone(scope),
            pending: RefCell::default(),
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

    fn key_at(&self, index: u32) -> Option<&[u8]> {
        self.records.get(index as usize).as_ref().and_then(RecordRef::key)
    }

    fn split(&mut self, count: u32) -> Option<Self> {
        let rest = self.records.split_off(count as usize);
        Some(Self::new(rest, &self.scope))
    }
}
