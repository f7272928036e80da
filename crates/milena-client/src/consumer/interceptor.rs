//! What sees records and commits on their way.

use super::{Consumer, records::ConsumerRecords};

/// Sees all records before the application does. Interceptors run in the order in which they were added, in the
/// application's task, and should be quick.
pub trait ConsumerInterceptor: Send {
    /// `poll` is about to return these; what comes back is what the application gets.
    fn on_consume(&mut self, records: ConsumerRecords) -> ConsumerRecords {
        records
    }
}

impl Consumer {
    pub fn add_interceptor(&mut self, interceptor: impl ConsumerInterceptor + 'static) {
        self.interceptors.push(Box::new(interceptor));
    }

    pub(super) fn intercept(&mut self, records: ConsumerRecords) -> ConsumerRecords {
        let interceptors = self.interceptors.iter_mut();
        interceptors.fold(records, |records, interceptor| interceptor.on_consume(records))
    }
}
