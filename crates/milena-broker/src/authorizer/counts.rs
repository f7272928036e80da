//! Counters of decisions.

use std::sync::atomic::{AtomicU64, Ordering};

use milena_machines::authorizer::{Operation, ResourceType};

/// Allowed and denied decisions, by operation and type of resource.
#[derive(Debug, Default)]
pub(crate) struct DecisionCounts {
    by_operation: [[Count; ResourceType::ALL.len()]; Operation::ALL.len()],
}

#[derive(Debug, Default)]
struct Count {
    allowed: AtomicU64,
    denied: AtomicU64,
}

impl DecisionCounts {
    pub(super) fn count(&self, operation: Operation, resource_type: ResourceType, allowed: bool) {
        let position = |code: i8| usize::try_from(code - 2).unwrap_or_default();
        let count = self.by_operation.get(position(operation.code()));
        let Some(count) = count.and_then(|types| types.get(position(resource_type.code()))) else {
            return;
        };
        let counter = if allowed { &count.allowed } else { &count.denied };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Operation, type of resource, allowed and denied, where there was a decision.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Operation, ResourceType, u64, u64)> {
        let types = Operation::ALL.into_iter().zip(&self.by_operation);
        let counts = types.flat_map(|(operation, types)| {
            let counts = ResourceType::ALL.into_iter().zip(types);
            counts.map(move |(resource_type, count)| {
                let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                (operation, resource_type, load(&count.allowed), load(&count.denied))
            })
        });
        counts.filter(|(_, _, allowed, denied)| allowed + denied > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_on_every_type_has_counters_of_its_own() {
        let counts = DecisionCounts::default();
        for operation in Operation::ALL {
            for resource_type in ResourceType::ALL {
                counts.count(operation, resource_type, true);
                counts.count(operation, resource_type, false);
            }
        }
        assert_eq!(counts.all().count(), Operation::ALL.len() * ResourceType::ALL.len());
        assert!(counts.all().all(|(_, _, allowed, denied)| (allowed, denied) == (1, 1)));
    }
}
