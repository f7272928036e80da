//! Bulkheads: permits for concurrent records, so that one slow handler does not take all resources.

#[derive(Debug, Clone)]
pub struct Bulkhead {
    permits: u32,
    taken: u32,
}

impl Bulkhead {
    pub fn new(permits: u32) -> Self {
        Self { permits, taken: 0 }
    }

    pub fn available(&self) -> u32 {
        self.permits.saturating_sub(self.taken)
    }

    pub fn taken(&self) -> u32 {
        self.taken
    }

    pub fn take(&mut self, count: u32) {
        self.taken = self.taken.saturating_add(count);
    }

    pub fn give_back(&mut self, count: u32) {
        self.taken = self.taken.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let mut bulkhead = Bulkhead::new(3);
        bulkhead.take(3);
        assert_eq!(bulkhead.available(), 0);
        bulkhead.give_back(1);
        assert_eq!((bulkhead.available(), bulkhead.taken()), (1, 2));
    }
}
