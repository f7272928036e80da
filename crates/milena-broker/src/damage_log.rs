//! Damage that is found while records are served, logged once for each place.

use std::{
    collections::HashSet,
    sync::{Mutex, PoisonError},
};

use crate::partition::Partition;

/// The most places that are remembered; beyond it, damage may be logged again.
const PLACES_MAX: usize = 1_000;

/// The places whose damage was logged.
#[derive(Debug, Default)]
pub(crate) struct DamageLog {
    logged: Mutex<HashSet<(String, i32, String)>>,
}

impl DamageLog {
    /// Logs damage, unless that was done before for this place of the partition.
    pub(crate) fn log(&self, partition: &Partition, place: &str, offset: i64, problem: &str) {
        let (topic, index) = (&partition.topic, partition.index);
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.len() >= PLACES_MAX {
            logged.clear();
        }
        if logged.insert((topic.to_string(), index, place.to_owned())) {
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
