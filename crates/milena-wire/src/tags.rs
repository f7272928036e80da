//! Tagged fields that a definition does not know.

use bytes::Bytes;

/// Tagged fields of a newer Kafka, kept as raw bytes and written back unchanged.
///
/// Almost always empty, so it costs one word in every struct and no allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::box_collection,
    reason = "a bare Vec would make every struct three words larger"
)]
pub struct UnknownTags(Option<Box<Vec<(u32, Bytes)>>>);

impl UnknownTags {
    pub fn push(&mut self, tag: u32, payload: Bytes) {
        self.0.get_or_insert_default().push((tag, payload));
    }

    pub fn iter(&self) -> impl Iterator<Item = (u32, &Bytes)> {
        self.0
            .iter()
            .flat_map(|tags| tags.iter())
            .map(|(tag, bytes)| (*tag, bytes))
    }

    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |tags| tags.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
