//! Custom partitioners.

use std::fmt;

use super::{Choice, PartitionInput, Partitioner, Partitions};

/// A partitioner from a closure.
///
/// ```
/// use milena_client::producer::partition::{Choice, Own, Partitioner};
///
/// let audit_apart = Own::new("audit-apart", |record, partitions| match record.key {
///     Some(b"audit") => Choice::Partition(0),
///     Some(key) if partitions.count > 1 => Choice::Partition(1 + key.len() as i32 % (partitions.count - 1)),
///     _ => Choice::Sticky,
/// });
/// # let _: &dyn Partitioner = &audit_apart;
/// ```
pub struct Own<F> {
    name: &'static str,
    choose: F,
}

impl<F: Fn(&PartitionInput<'_>, &Partitions<'_>) -> Choice> Own<F> {
    /// The name appears in `Debug` output.
    pub fn new(name: &'static str, choose: F) -> Self {
        Self { name, choose }
    }
}

impl<F> fmt::Debug for Own<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Own").field(&self.name).finish()
    }
}

impl<F: Fn(&PartitionInput<'_>, &Partitions<'_>) -> Choice + Send + Sync> Partitioner for Own<F> {
    fn partition(&self, record: &PartitionInput<'_>, partitions: &Partitions<'_>) -> Choice {
        (self.choose)(record, partitions)
    }
}
