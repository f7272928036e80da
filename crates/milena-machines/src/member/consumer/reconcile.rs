//! Reconciliation of the application's partitions with the target of the broker.

use std::collections::BTreeSet;

use milena_wire::Uuid;

use super::{Common, ConsumerProtocol, MemberEvent, PartitionsById, PendingEvent};
use crate::TopicPartition;

impl ConsumerProtocol {
    /// Takes the target of a heartbeat response.
    pub(super) fn set_target(&mut self, common: &Common, target: PartitionsById) {
        // Also if it equals the owned partitions: the broker may wait for the revocation of partitions that were never
        // taken.
        self.is_acknowledged &= self.target.as_ref() == Some(&target);
        self.target = Some(target);
        self.update_names(common);
    }

    /// Keeps the names of topics that are owned or in the target: they may vanish from the metadata before the
    /// revocation.
    pub(super) fn update_names(&mut self, common: &Common) {
        let of_interest = [&self.target, &self.current, &self.pending_assignment];
        let of_interest = of_interest.into_iter().flatten().flat_map(PartitionsById::keys);
        let of_interest: BTreeSet<Uuid> = of_interest.copied().collect();
        self.names.retain(|id, _| of_interest.contains(id));
        for id in of_interest {
            if let Some(name) = common.metadata.topic_name(id) {
                self.names.insert(id, name.clone());
            }
        }
    }

    /// The next step: revoke, then assign. Topics without a known name wait; the rest does not wait for them.
    pub(super) fn reconcile(&mut self, common: &mut Common) -> Option<MemberEvent> {
        let target = self.target.as_ref()?;
        let known = target.iter().filter(|(id, _)| self.names.contains_key(*id));
        let resolved: PartitionsById = known.map(|(id, partitions)| (*id, partitions.clone())).collect();
        if !self.is_reconciling && self.current.as_ref() == Some(&resolved) {
            // No event for the application, but the broker waits for the acknowledgement.
            self.must_acknowledge |= !self.is_acknowledged;
            self.is_acknowledged = true;
            return None;
        }
        let current = self.current.clone().unwrap_or_default();
        let revoked = self.named(&difference(&current, &resolved));
        if !revoked.is_empty() {
            self.is_reconciling = true;
            return Some(MemberEvent::Revoked(revoked.into_iter().collect()));
        }
        let added = self.named(&difference(&resolved, &current));
        if !added.is_empty() && self.has_uncertain_report() {
            return None;
        }
        common.owned = self.named(&resolved);
        self.is_reconciling = false;
        self.pending_assignment = Some(resolved);
        Some(MemberEvent::Assigned {
            added: added.into_iter().collect(),
            all: common.owned_list(),
        })
    }

    /// Whether a heartbeat that reports the owned partitions without the new ones may be in flight or lost.
    ///
    /// The broker could take it as their revocation, and assign them to another member: its response must come first.
    fn has_uncertain_report(&self) -> bool {
        self.sent_fields.is_none() || (self.call.is_some() && self.call_reports_owned)
    }

    /// The owned partitions together with those that the application is getting.
    pub(super) fn claimed(&self) -> PartitionsById {
        let mut claimed = self.current.clone().unwrap_or_default();
        for (id, partitions) in self.pending_assignment.iter().flatten() {
            claimed.entry(*id).or_default().extend(partitions);
        }
        claimed
    }

    /// Handles that the application is done with an event.
    pub(super) fn reconciled(&mut self, event: &PendingEvent) {
        match event {
            PendingEvent::Revoked(revoked) => {
                let Some(current) = &mut self.current else {
                    return; // Stale: the membership ended meanwhile.
                };
                for (id, partitions) in current.iter_mut() {
                    if let Some(name) = self.names.get(id) {
                        let is_revoked =
                            |partition: i32| revoked.contains(&TopicPartition::new(name.clone(), partition));
                        partitions.retain(|partition| !is_revoked(*partition));
                    }
                }
                current.retain(|_, partitions| !partitions.is_empty());
            }
            PendingEvent::Assigned => {
                // `None` if the membership ended meanwhile.
                if let Some(pending_assignment) = self.pending_assignment.take() {
                    self.current = Some(pending_assignment);
                    self.is_acknowledged = true;
                    self.must_acknowledge = true;
                }
            }
            PendingEvent::Lost | PendingEvent::Error => {}
        }
    }

    fn named(&self, partitions: &PartitionsById) -> BTreeSet<TopicPartition> {
        let topics = partitions
            .iter()
            .filter_map(|(id, partitions)| Some((self.names.get(id)?, partitions)));
        let named = topics.flat_map(|(name, partitions)| {
            partitions
                .iter()
                .map(|partition| TopicPartition::new(name.clone(), *partition))
        });
        named.collect()
    }
}

fn difference(from: &PartitionsById, without: &PartitionsById) -> PartitionsById {
    let mut rest = from.clone();
    for (id, partitions) in &mut rest {
        if let Some(without) = without.get(id) {
            partitions.retain(|partition| !without.contains(partition));
        }
    }
    rest
}
