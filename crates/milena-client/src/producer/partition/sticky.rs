//! Sticky partitioning of records without a key (KIP-794).

use milena_machines::Random;

use super::{Load, Partitions};

/// The current partition of a topic's records without a key. Full batches for one partition after the other cost less
/// than small batches for all.
#[derive(Debug)]
pub struct Sticky {
    current: Option<i32>,
    /// Bytes appended to the current partition.
    appended_bytes: usize,
    random: Random,
}

impl Sticky {
    pub fn new(seed: u64) -> Self {
        Self {
            current: None,
            appended_bytes: 0,
            random: Random::new(seed),
        }
    }

    /// The current partition, if one is chosen.
    pub fn chosen(&self) -> Option<i32> {
        self.current
    }

    /// The current partition; chooses one if needed.
    pub fn current(&mut self, partitions: &Partitions<'_>) -> i32 {
        if let Some(current) = self.current {
            return current;
        }
        let next = choose(partitions, self.random.next_u64() as u32);
        self.current = Some(next);
        next
    }

    /// Counts the bytes of a record in the current partition, whose batches are full at `batch_bytes` (at least 1).
    /// After that many bytes the partition changes when a batch is full (`batch_full`), so that no batch is left half
    /// full, or at twice the size if that never happens. A batch that is closed without another record counts with 0
    /// bytes.
    pub fn on_appended(&mut self, bytes: usize, batch_bytes: usize, batch_full: bool) {
        self.appended_bytes += bytes;
        let is_enough = self.appended_bytes >= batch_bytes && batch_full;
        if is_enough || self.appended_bytes >= batch_bytes.saturating_mul(2) {
            self.leave();
        }
    }

    /// Drops the current partition, for example because it has lost its leader.
    pub fn leave(&mut self) {
        self.current = None;
        self.appended_bytes = 0;
    }
}

/// Chooses a partition at random, weighted by queue length. As in Kafka, the weight is the longest queue plus one,
/// minus its own queue.
pub(super) fn choose(partitions: &Partitions<'_>, random: u32) -> i32 {
    let random = random & 0x7fff_ffff;
    weighted(partitions.loads, random)
        .or_else(|| uniform(partitions.available, random))
        .unwrap_or_else(|| partitions.at(random))
}

fn weighted(loads: &[Load], random: u32) -> Option<i32> {
    let longest = u64::from(loads.iter().map(|load| load.queued).max()?);
    let weight = |load: &Load| longest + 1 - u64::from(load.queued);
    let total: u64 = loads.iter().map(weight).sum();
    let mut left = u64::from(random) % total;
    let chosen = loads.iter().find(|load| match left.checked_sub(weight(load)) {
        Some(rest) => {
            left = rest;
            false
        }
        None => true,
    });
    chosen.map(|load| load.partition)
}

fn uniform(available: &[i32], random: u32) -> Option<i32> {
    let index = usize::try_from(random).ok()?.checked_rem(available.len())?;
    available.get(index).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(kind: &str) -> Vec<Vec<&'static str>> {
        let rows = include_str!("../../../tests/golden/partitions.txt").lines();
        let rows = rows.map(|line| line.split('\t').collect::<Vec<_>>());
        let rows: Vec<_> = rows.filter(|row| row[0] == kind).collect();
        assert!(rows.len() > 5, "{} lines of {kind}", rows.len());
        rows
    }

    fn numbers<T: std::str::FromStr>(text: &str) -> Vec<T> {
        let numbers = text.split(' ').filter(|number| !number.is_empty());
        numbers.map(|number| number.parse().ok().unwrap()).collect()
    }

    #[test]
    fn the_partition_for_a_random_number_is_kafkas() {
        for row in lines("choose") {
            let [_, count, available, ids, queued, randoms, expected] = row[..] else {
                panic!("{row:?}")
            };
            let (ids, queued): (Vec<i32>, Vec<u32>) = (numbers(ids), numbers(queued));
            let loads: Vec<Load> = std::iter::zip(ids, queued)
                .map(|(partition, queued)| Load { partition, queued })
                .collect();
            let partitions = Partitions {
                count: count.parse().unwrap(),
                available: &numbers(available),
                loads: &loads,
            };
            let chosen: Vec<i32> = numbers::<i32>(randoms)
                .into_iter()
                .map(|random| choose(&partitions, random.cast_unsigned()))
                .collect();
            assert_eq!(chosen, numbers::<i32>(expected), "{row:?}");
        }
    }

    #[test]
    fn a_partition_is_left_when_kafka_leaves_it() {
        for row in lines("stay") {
            let [_, batch_bytes, appended, left] = row[..] else {
                panic!("{row:?}")
            };
            let (mut sticky, batch_bytes) = (Sticky::new(7), batch_bytes.parse().unwrap());
            let partitions = Partitions {
                count: 3,
                available: &[0, 1, 2],
                loads: &[],
            };
            let mut ours = Vec::new();
            for step in appended.split(' ') {
                let before = sticky.current(&partitions);
                assert_eq!(sticky.current(&partitions), before);
                let full = step.ends_with('!');
                sticky.on_appended(step.trim_end_matches('!').parse().unwrap(), batch_bytes, full);
                ours.push(if sticky.current.is_none() { "left" } else { "stayed" });
            }
            assert_eq!(ours.join(" "), left, "{row:?}");
        }
    }

    #[test]
    fn all_partitions_get_their_share_in_the_long_run() {
        let mut sticky = Sticky::new(42);
        let loads = [(0, 3), (1, 0), (2, 1)].map(|(partition, queued)| Load { partition, queued });
        let partitions = Partitions {
            count: 3,
            available: &[0, 1, 2],
            loads: &loads,
        };
        let mut batches = [0; 3];
        for _ in 0..8000 {
            let current = sticky.current(&partitions);
            sticky.on_appended(100, 100, true);
            batches[usize::try_from(current).unwrap()] += 1;
        }
        // The weights are 1, 4 and 3.
        for (batches, expected) in std::iter::zip(batches, [1000, 4000, 3000]) {
            assert!((expected - 200..expected + 200).contains(&batches), "{batches}");
        }
    }
}
