//! The part of the cluster's metadata that a member needs.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_wire::Uuid;

use crate::assign::{ClusterLayout, TopicLayout};

/// Topics with their ids, partitions and racks. A requested topic that does not exist has no partitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberMetadata {
    layout: ClusterLayout,
    ids: BTreeMap<ByteString, Uuid>,
    names: BTreeMap<Uuid, ByteString>,
}

impl MemberMetadata {
    /// Adds a topic, or replaces the one of this name. Old brokers have no ids. The name is stored: give a copy.
    pub fn insert(&mut self, name: ByteString, id: Option<Uuid>, layout: TopicLayout) {
        if let Some(old) = self.ids.remove(&name) {
            self.names.remove(&old);
        }
        if let Some(id) = id {
            self.ids.insert(name.clone(), id);
            self.names.insert(id, name.clone());
        }
        self.layout.insert(name, layout);
    }

    pub fn layout(&self) -> &ClusterLayout {
        &self.layout
    }

    pub fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.ids.get(name).copied()
    }

    pub fn topic_name(&self, id: Uuid) -> Option<&ByteString> {
        self.names.get(&id)
    }
}

/// Topics that were missing in the last metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MetadataNeed {
    pub topics: BTreeSet<ByteString>,
    pub topic_ids: BTreeSet<Uuid>,
}
