//! Interceptors of records and commits.

use std::collections::BTreeMap;

use milena_machines::{TopicPartition, member::OffsetAndMetadata};

use super::{Consumer, records::ConsumerRecords};

/// Observes records before the application does, and offsets after they were committed. Interceptors run in the order
/// in which they were added, in the application's task, and should be quick.
pub trait ConsumerInterceptor: Send {
    /// Called before `poll` returns records. The returned records replace them.
    fn on_consume(&mut self, records: ConsumerRecords) -> ConsumerRecords {
        records
    }

    /// Called after offsets were committed, inside `poll`, `close`, or the call that committed them.
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

    /// Reports commits to the interceptors.
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
