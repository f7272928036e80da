//! Damage that is found while records are served, told once.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::partition::Partition;

/// The most places that are remembered; after that, damage may be logged again when it is met again.
const PLACES_MAX: usize = 1_000;

/// The places that were told of.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    told: Mutex<HashSet<(String, i32, String)>>,
}

impl DamageLog {
    /// Tells of damage, unless that was done before for this place of the partition.
    pub(crate) fn tell(&self, partition: &Partition, place: &str, offset: i64, problem: &str) {
        let (topic, index) = (&partition.topic, partition.index);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= PLACES_MAX {
            told.clear();
        }
        if told.insert((topic.to_string(), index, place.to_owned())) {
            tracing::error!(
                event = "damage_found",
                %topic,
                partition = index,
                offset,
                place,
                problem,
                "partition {topic}-{index} cannot be read at offset {offset}: {problem}; stop the broker and look at the \
                 directory with milena doctor"
            );
        }
    }
}
