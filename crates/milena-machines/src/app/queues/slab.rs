//! A vector whose free slots are used again.

use std::marker::PhantomData;

use crate::app::ids::Index;

/// Values by index. Only indexes of its own kind are taken.
#[derive(Debug)]
pub(crate) struct Slab<I, V> {
    values: Vec<V>,
    free: Vec<I>,
    index: PhantomData<I>,
}

impl<I, V> Default for Slab<I, V> {
    fn default() -> Self {
        Self {
            values: vec![],
            free: vec![],
            index: PhantomData,
        }
    }
}

impl<I: Index, V> Slab<I, V> {
    /// Returns the index of a free slot, or of a new one with this value.
    #[inline]
    pub(crate) fn take(&mut self, new: impl FnOnce() -> V) -> I {
        self.free.pop().unwrap_or_else(|| {
            self.values.push(new());
            I::at(self.values.len() - 1)
        })
    }

    /// Sets the value at an index that another slab has given out: an existing slot, or the next one.
    pub(crate) fn put(&mut self, index: I, value: V) {
        match self.values.get_mut(index.position()) {
            Some(slot) => *slot = value,
            None => self.values.push(value),
        }
    }

    #[inline]
    pub(crate) fn give_back(&mut self, index: I) {
        self.free.push(index);
    }

    /// The value at an index. `None` is the end of a list, [`Index::NONE`]: a slot that was given out is never removed, so
    /// callers need no other way out.
    #[inline]
    pub(crate) fn get(&self, index: I) -> Option<&V> {
        self.values.get(index.position())
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: I) -> Option<&mut V> {
        self.values.get_mut(index.position())
    }

    /// The indexes of all slots, with the free ones.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = I> + use<I, V> {
        (0..self.values.len()).map(I::at)
    }

    /// The same, in the order of turns: from the slot that has this number, modulo the number of slots.
    pub(crate) fn indexes_from(&self, turn: usize) -> impl Iterator<Item = I> + use<I, V> {
        let count = self.values.len();
        let first = turn % count.max(1);
        (first..count).chain(0..first).map(I::at)
    }
}
