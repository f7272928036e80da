//! Decisions that a connection has met, so that its next request needs no look-up in the index.

use std::collections::BTreeMap;

use bytestring::ByteString;

use super::{Operation, OperationSet, ResourceType};

/// The most resources that a connection remembers. When it meets more, it forgets all of them.
const RESOURCES_MAX: usize = 1_024;
/// Longer names are not remembered. Topics have up to 249 letters.
const NAME_BYTES_MAX: usize = 255;

/// The decisions about one caller, valid for one epoch of the authorizer.
#[derive(Debug, Default)]
pub struct DecisionCache {
    epoch: u64,
    by_type: [BTreeMap<ByteString, OperationSet>; ResourceType::ALL.len()],
    len: usize,
    /// Decisions about any resource of a type, by type and operation.
    on_any: Vec<(ResourceType, Operation, bool)>,
}

/// A decision to remember.
#[derive(Debug, Clone, Copy)]
pub enum Decision<'a> {
    Resource(ResourceType, &'a str, OperationSet),
    AnyOf(ResourceType, Operation, bool),
}

impl DecisionCache {
    /// The operations on a resource, if they are known in this epoch.
    pub fn operations(&self, epoch: u64, resource_type: ResourceType, name: &str) -> Option<OperationSet> {
        match self.epoch == epoch {
            true => self.of_type(resource_type)?.get(name).copied(),
            false => None,
        }
    }

    /// Whether an operation is allowed on any resource of a type, if that is known.
    pub fn on_any(&self, epoch: u64, resource_type: ResourceType, operation: Operation) -> Option<bool> {
        let mut known = self.on_any.iter().filter(|_| self.epoch == epoch);
        let known = known.find(|known| (known.0, known.1) == (resource_type, operation));
        known.map(|known| known.2)
    }

    /// Remembers a decision of an epoch, and forgets those of other epochs.
    pub fn insert(&mut self, epoch: u64, decision: Decision<'_>) {
        if self.epoch != epoch || self.len >= RESOURCES_MAX {
            *self = Self {
                epoch,
                ..Self::default()
            };
        }
        match decision {
            Decision::Resource(_, name, _) if name.len() > NAME_BYTES_MAX => {}
            Decision::Resource(resource_type, name, operations) => {
                // The name is copied: as a slice it would keep the whole request in memory.
                let name = ByteString::from(name);
                let at = usize::try_from(resource_type.code() - 2).unwrap_or_default();
                if let Some(decisions) = self.by_type.get_mut(at) {
                    self.len += usize::from(decisions.insert(name, operations).is_none());
                }
            }
            Decision::AnyOf(resource_type, operation, allowed) => {
                self.on_any.push((resource_type, operation, allowed));
                self.len += 1;
            }
        }
    }

    fn of_type(&self, resource_type: ResourceType) -> Option<&BTreeMap<ByteString, OperationSet>> {
        let at = usize::try_from(resource_type.code() - 2).ok()?;
        self.by_type.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: OperationSet = OperationSet::of(&[Operation::Read]);

    fn insert(cache: &mut DecisionCache, epoch: u64, name: &str) {
        cache.insert(epoch, Decision::Resource(ResourceType::Topic, name, READ));
    }

    #[test]
    fn decisions_hold_for_one_epoch() {
        let mut cache = DecisionCache::default();
        insert(&mut cache, 1, "orders");
        let found = |cache: &DecisionCache, epoch, name| cache.operations(epoch, ResourceType::Topic, name);
        assert_eq!(found(&cache, 1, "orders"), Some(READ));
        assert_eq!(found(&cache, 2, "orders"), None);
        assert_eq!(cache.operations(1, ResourceType::Group, "orders"), None);
        insert(&mut cache, 2, "bills");
        assert_eq!(found(&cache, 2, "orders"), None, "of an older epoch");
        assert_eq!(found(&cache, 2, "bills"), Some(READ));
        cache.insert(2, Decision::AnyOf(ResourceType::Topic, Operation::Write, true));
        assert_eq!(cache.on_any(2, ResourceType::Topic, Operation::Write), Some(true));
        assert_eq!(cache.on_any(3, ResourceType::Topic, Operation::Write), None);
        assert_eq!(cache.on_any(2, ResourceType::Topic, Operation::Read), None);
    }

    #[test]
    fn a_client_that_names_ever_new_resources_does_not_fill_the_memory() {
        let mut cache = DecisionCache::default();
        for number in 0..5 * RESOURCES_MAX {
            insert(&mut cache, 1, &format!("topic-{number}"));
            assert!(cache.len <= RESOURCES_MAX);
        }
        let last = format!("topic-{}", 5 * RESOURCES_MAX - 1);
        assert_eq!(cache.operations(1, ResourceType::Topic, &last), Some(READ));
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        insert(&mut cache, 1, &long);
        assert_eq!(cache.operations(1, ResourceType::Topic, &long), None);
    }
}
