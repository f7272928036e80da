//! What sees records and commits on their way.

use std::collections::BTreeMap;

use milena_machines::{TopicPartition, member::OffsetAndMetadata};

use super::{Consumer, records::ConsumerRecords};

/// Sees all records before the application does, and all offsets after they are committed. Interceptors run in the order in which they were added, in the
/// application's task, and should be quick.
pub trait ConsumerInterceptor: Send {
    /// `poll` is about to return these; what comes back is what the application gets.
    fn on_consume(&mut self, records: ConsumerRecords) -> ConsumerRecords {
        records
    }

    /// These offsets were committed. It is told inside `poll`, `close`, or the call that committed them.
    fn on_commit(&mut self, offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>) {
        let _ = offsets;
    }
}

impl Consumer {
    pub fn add_interceptor(&mut self, interceptor: impl ConsumerInterceptor + 'static) {
        self.interceptors.push(Box::new(interceptor));
        if let Some(group) = &mut self.inner.shared.core().group {
            group.reports_commits = true;
        }
    }

    /// Tells the interceptors what was committed since the last time.
    pub(super) fn report_commits(&mut self) {
        if self.interceptors.is_empty() {
            return;
        }
        let committed = match &mut self.inner.shared.core().group {
            Some(group) => std::mem::take(&mut group.committed),
            None => return,
        };
        for offsets in &committed {
            for interceptor in &mut self.interceptors {
                interceptor.on_commit(offsets);
            }
        }
    }

    pub(super) fn intercept(&mut self, records: ConsumerRecords) -> ConsumerRecords {
        let interceptors = self.interceptors.iter_mut();
        interceptors.fold(records, |records, interceptor| interceptor.on_consume(records))
    }
}
