//! Values by number, with the numbers of those that are gone given out again.

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Slab<V> {
    values: Vec<V>,
    free: Vec<u32>,
}

impl<V> Default for Slab<V> {
    fn default() -> Self {
        Self {
            values: vec![],
            free: vec![],
        }
    }
}

impl<V> Slab<V> {
    /// The number of a value that is free, or of a new one.
    pub(crate) fn take(&mut self, new: impl FnOnce() -> V) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.values.push(new());
            (self.values.len() - 1) as u32
        })
    }

    pub(crate) fn give_back(&mut self, index: u32) {
        self.free.push(index);
    }

    pub(crate) fn get(&self, index: u32) -> Option<&V> {
        self.values.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut V> {
        self.values.get_mut(index as usize)
    }

    /// How many there are, those that are free counted.
    pub(crate) fn len(&self) -> u32 {
        self.values.len() as u32
    }
}
