//! What applications hear comes in an order that they can rely on.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::{TopicPartition, member::Membership};

use crate::clients::ClientId;

/// What each application has been told. Partitions come by being assigned and go by being revoked or lost, each once;
/// what is being revoked can still be committed, what is lost cannot.
#[derive(Debug, Default)]
pub(crate) struct Listeners {
    told: BTreeMap<ClientId, BTreeSet<TopicPartition>>,
}

impl Listeners {
    /// A process ended, and its memory with it.
    pub(crate) fn ended(&mut self, client: ClientId) {
        self.told.remove(&client);
    }

    pub(crate) fn assigned(
        &mut self,
        client: ClientId,
        added: &[TopicPartition],
        all: &[TopicPartition],
    ) -> Result<(), String> {
        let told = self.told.entry(client).or_default();
        for place in added {
            if !told.insert(place.clone()) {
                return Err(format!("client {client} was told twice that {place} is its own"));
            }
        }
        if told.iter().ne(all) {
            return Err(format!(
                "client {client} has {told:?} by what it was told, and {all:?} by the last event"
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
                "client {client} cannot commit what is revoked: it is {membership:?}"
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
            return Err(format!(
                "client {client} hears that {partitions:?} are lost, but is in the group"
            ));
        }
        self.goes(client, partitions)?;
        let left = self.told.get(&client).filter(|left| !left.is_empty());
        left.map_or(Ok(()), |left| {
            Err(format!("client {client} lost everything, but was not told of {left:?}"))
        })
    }

    fn goes(&mut self, client: ClientId, partitions: &[TopicPartition]) -> Result<(), String> {
        let told = self.told.entry(client).or_default();
        let mut unknown = partitions.iter().filter(|place| !told.remove(*place));
        unknown.next().map_or(Ok(()), |place| {
            Err(format!(
                "client {client} hears that {place} goes, which it was never told to have"
            ))
        })
    }

    /// An application reads only what it was told to have.
    pub(crate) fn reads(&self, client: ClientId, reads: &BTreeSet<TopicPartition>) -> Result<(), String> {
        let nothing = BTreeSet::new();
        let told = self.told.get(&client).unwrap_or(&nothing);
        if reads.is_subset(told) {
            return Ok(());
        }
        Err(format!("client {client} reads {reads:?} and was told to have {told:?}"))
    }
}

#[cfg(test)]
mod tests {
    use milena_machines::member::GroupMetadata;

    use super::*;

    fn places(partitions: &[i32]) -> Vec<TopicPartition> {
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
        assert_eq!(listeners.assigned(1, &places(&[0, 1]), &places(&[0, 1])), Ok(()));
        assert!(listeners.revoked(1, &places(&[0]), &Membership::Rebalancing).is_err());
        assert_eq!(listeners.revoked(1, &places(&[0]), &member), Ok(()));
        assert_eq!(listeners.assigned(1, &places(&[2]), &places(&[1, 2])), Ok(()));
        assert!(listeners.reads(1, &places(&[0]).into_iter().collect()).is_err());
        assert!(listeners.lost(1, &places(&[1, 2]), &member).is_err());
        assert!(listeners.lost(1, &places(&[1]), &Membership::NotMember).is_err());
        assert!(listeners.revoked(1, &places(&[1]), &member).is_err());
        assert_eq!(listeners.lost(1, &places(&[2]), &Membership::NotMember), Ok(()));
        assert!(listeners.assigned(1, &places(&[1]), &places(&[1, 2])).is_err());
        listeners.ended(1);
        assert_eq!(listeners.assigned(1, &places(&[1]), &places(&[1])), Ok(()));
        assert!(listeners.assigned(1, &places(&[1]), &places(&[1])).is_err());
    }
}
