//! From what the application owns to what the broker wants it to own.

use std::collections::BTreeSet;

use milena_wire::Uuid;

use super::{Common, ConsumerProtocol, MemberEvent, PartitionsById, Told};
use crate::TopicPartition;

impl ConsumerProtocol {
    /// The broker has told where to go.
    pub(super) fn aim(&mut self, common: &Common, target: PartitionsById) {
        // Even if we are there already: the broker may wait for us to let go of what we have never taken.
        self.is_reached &= self.target.as_ref() == Some(&target);
        self.target = Some(target);
        self.learn_names(common);
    }

    /// Of topics that we own or are to own, the names are kept: metadata may forget them before we have let go.
    pub(super) fn learn_names(&mut self, common: &Common) {
        let of_interest = [&self.target, &self.current, &self.arriving];
        let of_interest = of_interest.into_iter().flatten().flat_map(PartitionsById::keys);
        let of_interest: BTreeSet<Uuid> = of_interest.copied().collect();
        self.names.retain(|id, _| of_interest.contains(id));
        for id in of_interest {
            if let Some(name) = common.metadata.topic_name(id) {
                self.names.insert(id, name.clone());
            }
        }
    }

    /// The next step: let go, then take over. What has no name yet waits; the rest does not wait for it.
    pub(super) fn reconcile(&mut self, common: &mut Common) -> Option<MemberEvent> {
        let target = self.target.as_ref()?;
        let known = target.iter().filter(|(id, _)| self.names.contains_key(*id));
        let resolved: PartitionsById = known.map(|(id, partitions)| (*id, partitions.clone())).collect();
        if !self.is_moving && self.current.as_ref() == Some(&resolved) {
            // The application has nothing to do, but the broker is to know that we have heard.
            self.must_acknowledge |= !self.is_reached;
            self.is_reached = true;
            return None;
        }
        let current = self.current.clone().unwrap_or_default();
        let revoked = self.named(&difference(&current, &resolved));
        if !revoked.is_empty() {
            self.is_moving = true;
            return Some(MemberEvent::Revoked(revoked.into_iter().collect()));
        }
        let added = self.named(&difference(&resolved, &current));
        if !added.is_empty() && self.is_misunderstood() {
            return None;
        }
        common.owned = self.named(&resolved);
        self.is_moving = false;
        self.arriving = Some(resolved);
        Some(MemberEvent::Assigned {
            added: added.into_iter().collect(),
            all: common.owned_list(),
        })
    }

    /// A heartbeat that tells what we own without what is new may be on its way, or lost. The broker could take it as a sign
    /// that we have let go of that, and give it to somebody else: its answer must come first.
    fn is_misunderstood(&self) -> bool {
        self.told.is_none() || (self.call.is_some() && self.call_tells_owned)
    }

    /// What we own, with what the application is taking over.
    pub(super) fn claimed(&self) -> PartitionsById {
        let mut claimed = self.current.clone().unwrap_or_default();
        for (id, partitions) in self.arriving.iter().flatten() {
            claimed.entry(*id).or_default().extend(partitions);
        }
        claimed
    }

    /// The application has taken a step.
    pub(super) fn reconciled(&mut self, told: &Told) {
        match told {
            Told::Revoked(revoked) => {
                let Some(current) = &mut self.current else { return };
                for (id, partitions) in current.iter_mut() {
                    if let Some(name) = self.names.get(id) {
                        let is_revoked =
                            |partition: i32| revoked.contains(&TopicPartition::new(name.clone(), partition));
                        partitions.retain(|partition| !is_revoked(*partition));
                    }
                }
                current.retain(|_, partitions| !partitions.is_empty());
            }
            Told::Assigned => {
                // Unless we were thrown out meanwhile.
                if let Some(arriving) = self.arriving.take() {
                    self.current = Some(arriving);
                    self.is_reached = true;
                    self.must_acknowledge = true;
                }
            }
            Told::Lost | Told::Error => {}
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
