//! The network between clients and broker.

use milena_machines::Random;

/// Probabilities of faults, per mille.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// The same for responses alone.
    pub(crate) answers_doubled: u64,
    pub(crate) slow: u64,
    /// Whether messages of one client overtake each other, which takes more than one connection.
    pub(crate) reorders: bool,
}

/// The longest delay of a slow message.
const SLOW_MS_MAX: u64 = 1_500;

impl Network {
    /// A network without faults.
    pub(crate) const GOOD: Self = Self {
        lost: 0,
        doubled: 0,
        answers_doubled: 0,
        slow: 0,
        reorders: false,
    };

    /// With `doubles`, clients repeat requests without a response as if they were new.
    pub(crate) fn bad(random: &mut Random, doubles: bool, reorders: bool) -> Self {
        Self {
            lost: random.below(100),
            doubled: if doubles { random.below(80) } else { 0 },
            answers_doubled: 0,
            slow: random.below(200),
            reorders,
        }
    }

    /// The delays of the copies of a message; empty if it is lost.
    pub(crate) fn delays(&self, random: &mut Random) -> Vec<i64> {
        if random.below(1_000) < self.lost {
            return vec![];
        }
        let copies = if random.below(1_000) < self.doubled { 2 } else { 1 };
        (0..copies).map(|_| self.delay(random)).collect()
    }

    /// The delays of the copies of a response.
    pub(crate) fn reply_delays(&self, random: &mut Random) -> Vec<i64> {
        let doubled = self.doubled.max(self.answers_doubled);
        Self { doubled, ..*self }.delays(random)
    }

    fn delay(&self, random: &mut Random) -> i64 {
        let slow = random.below(1_000) < self.slow;
        random.below(if slow { SLOW_MS_MAX } else { 10 }) as i64 + 1
    }
}
