//! Check of rebalance listeners: the order of their calls.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::{TopicPartition, member::Membership};

use crate::clients::ClientId;

/// The partitions of each application, as its listener knows them. Partitions come by being assigned and go by being
/// revoked or lost, each once; a partition being revoked can still be committed, a lost one cannot.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    assigned: BTreeMap<ClientId, BTreeSet<TopicPartition>>,
}

impl Listeners {
    /// A process ended, and its memory with it.
    pub(crate) fn ended(&mut self, client: ClientId) {
        self.assigned.remove(&client);
    }

    pub(crate) fn assigned(
        &mut self,
        client: ClientId,
        added: &[TopicPartition],
        all: &[TopicPartition],
    ) -> Result<(), String> {
        let assigned = self.assigned.entry(client).or_default();
        for topic_partition in added {
            if !assigned.insert(topic_partition.clone()) {
                return Err(format!("client {client} was assigned {topic_partition} twice"));
            }
        }
        if assigned.iter().ne(all) {
            return Err(format!(
                "client {client} was assigned {assigned:?} by its events, and {all:?} by the last one"
            ));
        }
        Ok(())
    }

    pub(crate) fn revoked(
        &mut self,
        client: ClientId,
        partitions: &[TopicPartition],
        membership: &Membership,
    ) -> Result<(), String> {
        if !matches!(membership, Membership::Member { .. }) {
            return Err(format!(
                "client {client} cannot commit revoked partitions: it is {membership:?}"
            ));
        }
        self.goes(client, partitions)
    }

    pub(crate) fn lost(
        &mut self,
        client: ClientId,
        partitions: &[TopicPartition],
        membership: &Membership,
    ) -> Result<(), String> {
        if matches!(membership, Membership::Member { .. }) {
            return Err(format!("client {client} lost {partitions:?}, but is in the group"));
        }
        self.goes(client, partitions)?;
        let left = self.assigned.get(&client).filter(|left| !left.is_empty());
        left.map_or(Ok(()), |left| {
            Err(format!(
                "client {client} lost everything, but is still assigned {left:?}"
            ))
        })
    }

    fn goes(&mut self, client: ClientId, partitions: &[TopicPartition]) -> Result<(), String> {
        let assigned = self.assigned.entry(client).or_default();
        let mut unknown = partitions
            .iter()
            .filter(|topic_partition| !assigned.remove(*topic_partition));
        unknown.next().map_or(Ok(()), |topic_partition| {
            Err(format!(
                "client {client} lost {topic_partition}, which it was not assigned"
            ))
        })
    }

    /// An application reads only partitions that were assigned to it.
    pub(crate) fn reads(&self, client: ClientId, reads: &BTreeSet<TopicPartition>) -> Result<(), String> {
        let nothing = BTreeSet::new();
        let assigned = self.assigned.get(&client).unwrap_or(&nothing);
        if reads.is_subset(assigned) {
            return Ok(());
        }
        Err(format!("client {client} reads {reads:?} and was assigned {assigned:?}"))
    }
}

#[cfg(test)]
mod tests {
    use milena_machines::member::GroupMetadata;

    use super::*;

    fn partitions(partitions: &[i32]) -> Vec<TopicPartition> {
        partitions
            .iter()
            .map(|partition| TopicPartition::new("t", *partition))
            .collect()
    }

    #[test]
    fn what_comes_goes_and_nothing_comes_twice() {
        let mut listeners = Listeners::default();
        let identity = GroupMetadata {
            group_id: "g".into(),
            generation: 1,
            member_id: "m".into(),
            instance_id: None,
        };
        let member = Membership::Member {
            identity,
            is_epoch: true,
        };
        assert_eq!(
            listeners.assigned(1, &partitions(&[0, 1]), &partitions(&[0, 1])),
            Ok(())
        );
        assert!(
            listeners
                .revoked(1, &partitions(&[0]), &Membership::Rebalancing)
                .is_err()
        );
        assert_eq!(listeners.revoked(1, &partitions(&[0]), &member), Ok(()));
        assert_eq!(listeners.assigned(1, &partitions(&[2]), &partitions(&[1, 2])), Ok(()));
        assert!(listeners.reads(1, &partitions(&[0]).into_iter().collect()).is_err());
        assert!(listeners.lost(1, &partitions(&[1, 2]), &member).is_err());
        assert!(listeners.lost(1, &partitions(&[1]), &Membership::NotMember).is_err());
        assert!(listeners.revoked(1, &partitions(&[1]), &member).is_err());
        assert_eq!(listeners.lost(1, &partitions(&[2]), &Membership::NotMember), Ok(()));
        assert!(listeners.assigned(1, &partitions(&[1]), &partitions(&[1, 2])).is_err());
        listeners.ended(1);
        assert_eq!(listeners.assigned(1, &partitions(&[1]), &partitions(&[1])), Ok(()));
        assert!(listeners.assigned(1, &partitions(&[1]), &partitions(&[1])).is_err());
    }
}
