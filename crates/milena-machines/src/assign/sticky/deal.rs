//! Which partitions, after it is known how many.

use std::collections::VecDeque;

use super::{
    super::group::Place,
    kinds::{Kind, Unit},
    network::Seat,
};

/// Gives each member as many partitions of a kind as its seat says: its own ones first, then those it had before somebody
/// else did, then any.
pub(super) fn deal(kind: &Kind<'_>, seats: &[Seat], assigned: &mut [Vec<Place>]) {
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
    /// What each seat has got.
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

    /// Everybody keeps what it may; returns what nobody owns, and what owners have to give up.
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
                continue;
            };
            if units.len() > quota {
                // What somebody had before who can take it again is given up first; then, of all topics alike, what has
                // the highest number.
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

    /// Whether the seat of the member that had a partition before its owner is to get more than it owned.
    fn wants(&self, unit: &Unit) -> bool {
        let seat = self.seat_of(unit.earlier).and_then(|seat| self.seats.get(seat));
        seat.is_some_and(|seat| seat.count > seat.home)
    }

    /// Gives a partition to the member that had it before its owner, if that has room.
    fn give_back(&mut self, unit: &Unit) -> bool {
        let Some(seat) = self.seat_of(unit.earlier) else {
            return false;
        };
        let quota = self.seats.get(seat).map_or(0, |seat| seat.count);
        let units = self.units.get_mut(seat).filter(|units| units.len() < quota);
        units.map(|units| units.push(*unit)).is_some()
    }

    /// Gives out the rest in turn, so that everybody gets some of each topic.
    fn deal(&mut self, mut free: Vec<Unit>) {
        free.sort_unstable_by_key(|unit| unit.place);
        let seats = self.units.iter_mut().zip(self.seats);
        let mut hungry: VecDeque<(&mut Vec<Unit>, usize)> = seats.map(|(units, seat)| (units, seat.count)).collect();
        hungry.retain(|(units, quota)| units.len() < *quota);
        for unit in free {
            let Some((units, quota)) = hungry.pop_front() else {
                return;
            };
            units.push(unit);
            if units.len() < quota {
                hungry.push_back((units, quota));
            }
        }
    }
}
