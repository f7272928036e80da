//! The network between clients and broker.

use milena_machines::Random;

/// How often what goes wrong, in a thousand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Network {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    /// The same for answers alone.
    pub(crate) answers_doubled: u64,
    pub(crate) slow: u64,
    /// Whether messages of one client overtake each other, which takes more than one connection.
    pub(crate) reorders: bool,
}

/// A slow message takes at most so long.
const SLOW_MS_MAX: u64 = 1_500;

impl Network {
    /// One that does what it should.
    pub(crate) const GOOD: Self = Self {
        lost: 0,
        doubled: 0,
        answers_doubled: 0,
        slow: 0,
        reorders: false,
    };

    /// With `doubles`, clients send again what was not answered as if it were the first time.
    pub(crate) fn bad(random: &mut Random, doubles: bool, reorders: bool) -> Self {
        Self {
            lost: random.below(100),
            doubled: if doubles { random.below(80) } else { 0 },
            answers_doubled: 0,
            slow: random.below(200),
            reorders,
        }
    }

    /// How long the copies of a message take; none if it is lost.
    pub(crate) fn delays(&self, random: &mut Random) -> Vec<i64> {
        if random.below(1_000) < self.lost {
            return vec![];
        }
        let copies = if random.below(1_000) < self.doubled { 2 } else { 1 };
        (0..copies).map(|_| self.delay(random)).collect()
    }

    /// How long the copies of an answer take.
    pub(crate) fn answer_delays(&self, random: &mut Random) -> Vec<i64> {
        let doubled = self.doubled.max(self.answers_doubled);
        Self { doubled, ..*self }.delays(random)
    }

    fn delay(&self, random: &mut Random) -> i64 {
        let slow = random.below(1_000) < self.slow;
        random.below(if slow { SLOW_MS_MAX } else { 10 }) as i64 + 1
    }
}
