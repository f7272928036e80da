//! The choice of partitions, once the numbers are known.

use std::collections::VecDeque;

use milena_invariant::violated;

use super::{
    super::group::PartitionIndex,
    kinds::{Kind, Unit},
    network::Seat,
};

/// Gives each member as many partitions of a kind as its seat says: first its own, then those that it owned before
/// their current owner, then any.
pub(super) fn deal(kind: &Kind<'_>, seats: &[Seat], assigned: &mut [Vec<PartitionIndex>]) {
    let mut table = Table::new(kind, seats);
    let mut free = table.keep(kind);
    free.retain(|unit| !table.give_back(unit));
    table.deal(free);
    for (seat, units) in table.seats.iter().zip(table.units) {
        if let Some(assigned) = assigned.get_mut(seat.member) {
            assigned.extend(units.iter().map(|unit| unit.place));
        }
    }
}

struct Table<'a> {
    kind: &'a Kind<'a>,
    seats: &'a [Seat],
    /// The partitions of each seat so far.
    units: Vec<Vec<Unit>>,
}

impl<'a> Table<'a> {
    fn new(kind: &'a Kind<'a>, seats: &'a [Seat]) -> Self {
        Self {
            kind,
            seats,
            units: vec![vec![]; seats.len()],
        }
    }

    fn seat_of(&self, member: Option<usize>) -> Option<usize> {
        self.kind.subscribers.binary_search(&member?).ok()
    }

    /// Lets members keep their partitions up to their quota; returns the partitions without an owner and those to be
    /// given up.
    fn keep(&mut self, kind: &Kind<'_>) -> Vec<Unit> {
        let mut free = vec![];
        for unit in &kind.units {
            let seat = self.seat_of(unit.owner);
            match seat.and_then(|seat| self.units.get_mut(seat)) {
                Some(units) => units.push(*unit),
                None => free.push(*unit),
            }
        }
        for place in 0..self.seats.len() {
            let quota = self.seats.get(place).map_or(0, |seat| seat.count);
            let Some(mut units) = self.units.get_mut(place).map(std::mem::take) else {
                violated!("every_seat_has_units");
                continue;
            };
            if units.len() > quota {
                // Partitions that a previous owner can take back are given up first; then, across all topics, those
                // with the highest number.
                units.sort_by_key(|unit| {
                    let (topic, partition) = unit.place;
                    (self.wants(unit), partition, topic)
                });
                free.extend(units.drain(quota..));
            }
            if let Some(place) = self.units.get_mut(place) {
                *place = units;
            }
        }
        free
    }

    /// Whether the previous owner's seat is to get more partitions than it owned.
    fn wants(&self, unit: &Unit) -> bool {
        let seat = self.seat_of(unit.earlier).and_then(|seat| self.seats.get(seat));
        seat.is_some_and(|seat| seat.count > seat.home)
    }

    /// Gives a partition to its previous owner, if that has room.
    fn give_back(&mut self, unit: &Unit) -> bool {
        let Some(seat) = self.seat_of(unit.earlier) else {
            return false; // It left, or does not subscribe any more.
        };
        let quota = self.seats.get(seat).map_or(0, |seat| seat.count);
        let units = self.units.get_mut(seat).filter(|units| units.len() < quota);
        units.map(|units| units.push(*unit)).is_some()
    }

    /// Deals the rest in turn, so that every member gets some of each topic.
    fn deal(&mut self, mut free: Vec<Unit>) {
        free.sort_unstable_by_key(|unit| unit.place);
        let seats = self.units.iter_mut().zip(self.seats);
        let mut below_quota: VecDeque<(&mut Vec<Unit>, usize)> =
            seats.map(|(units, seat)| (units, seat.count)).collect();
        below_quota.retain(|(units, quota)| units.len() < *quota);
        for unit in free {
            let Some((units, quota)) = below_quota.pop_front() else {
                violated!("quotas_add_up_to_the_partitions");
                return;
            };
            units.push(unit);
            if units.len() < quota {
                below_quota.push_back((units, quota));
            }
        }
    }
}
