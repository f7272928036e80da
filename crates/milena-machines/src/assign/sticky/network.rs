//! Members, kinds of partitions, and who has how many of which.

use std::{cmp::Reverse, collections::BinaryHeap};

use bytestring::ByteString;

use super::{super::group::Group, kinds::Kind};

/// What it costs if a partition does not stay with its owner.
const MOVE: i64 = 1000;
/// What it costs if a partition has no replica in the rack of its member. As in Kafka, that is worth one move; it is not
/// worth two. The number is odd so that no few moves cost exactly what a few racks do.
const FAR: i64 = 1501;

#[derive(Debug)]
pub(super) struct Network {
    pub(super) members: Vec<Member>,
    pub(super) kinds: Vec<Seats>,
    /// The part of the group that is being balanced.
    part: usize,
}

#[derive(Debug, Default)]
pub(super) struct Member {
    /// How many partitions it has.
    pub(super) load: usize,
    /// The part of the group that it belongs to.
    part: usize,
    pub(super) potential: i64,
    /// Its seats: the kind, and the place there.
    pub(super) seats: Vec<(usize, usize)>,
}

/// The subscribers of a kind.
#[derive(Debug)]
pub(super) struct Seats {
    pub(super) potential: i64,
    pub(super) seats: Vec<Seat>,
}

/// A member and a kind of partitions that it may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    pub(super) member: usize,
    /// How many it has.
    pub(super) count: usize,
    /// How many it owned.
    pub(super) home: usize,
    /// Whether it is in a rack where they have no replica.
    far: bool,
}

impl Seat {
    /// The price of one more partition here.
    fn price_of_next(&self) -> i64 {
        self.price(self.count < self.home)
    }

    /// The price of the last partition here.
    fn price_of_last(&self) -> i64 {
        self.price(self.count <= self.home)
    }

    fn price(&self, is_home: bool) -> i64 {
        FAR * i64::from(self.far) - MOVE * i64::from(is_home)
    }
}

impl Network {
    /// Puts each partition where it is cheapest, however many a member has then; where that is several members, with the
    /// one that has least.
    pub(super) fn new(group: &Group<'_>, racks: &[&ByteString], kinds: &[Kind<'_>]) -> Self {
        let rack_of = |member: &usize| {
            let rack = group.members.get(*member)?.rack.as_ref()?;
            racks.binary_search(&rack).ok()
        };
        let mut network = Self {
            members: group.members.iter().map(|_| Member::default()).collect(),
            kinds: vec![],
            part: 0,
        };
        for (place, kind) in kinds.iter().enumerate() {
            let subscribers = kind.subscribers.iter();
            let mut seats: Vec<Seat> = subscribers
                .map(|member| Seat {
                    member: *member,
                    count: 0,
                    home: 0,
                    far: rack_of(member).is_some_and(|rack| !kind.racks.contains(&rack)),
                })
                .collect();
            for owner in kind.units.iter().filter_map(|unit| unit.owner) {
                let seat = kind.subscribers.binary_search(&owner).ok();
                if let Some(seat) = seat.and_then(|seat| seats.get_mut(seat)) {
                    seat.home += 1;
                }
            }
            network.add(place, seats);
        }
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        order.sort_by_key(|kind| kinds.get(*kind).map(|kind| kind.subscribers.len()));
        for place in order {
            network.fill(place, kinds.get(place).map_or(0, |kind| kind.units.len()));
        }
        network
    }

    /// Begins with what is owned and near; if nobody is near, with what is owned.
    fn add(&mut self, place: usize, mut seats: Vec<Seat>) {
        let somebody_is_near = seats.iter().any(|seat| !seat.far);
        for (number, seat) in seats.iter_mut().enumerate() {
            if !(seat.far && somebody_is_near) {
                seat.count = seat.home;
            }
            if let Some(member) = self.members.get_mut(seat.member) {
                member.load += seat.count;
                member.seats.push((place, number));
            }
        }
        self.kinds.push(Seats {
            potential: if somebody_is_near { 0 } else { -FAR },
            seats,
        });
    }

    /// Gives out what is left of `units` partitions of a kind, each to who has least of those who are as near as anybody.
    fn fill(&mut self, place: usize, units: usize) {
        let Some(kind) = self.kinds.get_mut(place) else { return };
        let taken: usize = kind.seats.iter().map(|seat| seat.count).sum();
        if taken == units {
            return;
        }
        let somebody_is_near = kind.seats.iter().any(|seat| !seat.far);
        let seats = kind.seats.iter().enumerate();
        let eligible = seats.filter(|(_, seat)| !(seat.far && somebody_is_near));
        let load = |seat: &Seat| self.members.get(seat.member).map_or(0, |member| member.load);
        let mut by_load: BinaryHeap<Reverse<(usize, usize)>> =
            eligible.map(|(number, seat)| Reverse((load(seat), number))).collect();
        for _ in taken..units {
            let Some(mut least) = by_load.peek_mut() else { return };
            let Reverse((load, number)) = &mut *least;
            *load += 1;
            if let Some(seat) = kind.seats.get_mut(*number) {
                seat.count += 1;
                if let Some(member) = self.members.get_mut(seat.member) {
                    member.load += 1;
                }
            }
        }
    }

    pub(super) fn load(&self, member: usize) -> usize {
        self.members.get(member).map_or(0, |member| member.load)
    }

    pub(super) fn potential(&self, member: usize) -> i64 {
        self.members.get(member).map_or(0, |member| member.potential)
    }

    /// From now on partitions stay among these members.
    pub(super) fn enter(&mut self, part: &[usize]) {
        self.part += 1;
        for member in part {
            if let Some(member) = self.members.get_mut(*member) {
                member.part = self.part;
            }
        }
    }

    /// What it takes from `member` to pass on a partition of a kind, with the potentials: zero or more. None if it has
    /// none.
    pub(super) fn price_to_give(&self, member: usize, kind: usize, seat: usize) -> Option<i64> {
        let kind = self.kinds.get(kind)?;
        let seat = kind.seats.get(seat).filter(|seat| seat.count > 0)?;
        Some(self.potential(member) - seat.price_of_last() - kind.potential)
    }

    /// Who sits there and what it takes to give it a partition, with the potentials: zero or more. None if it belongs to
    /// another part.
    pub(super) fn price_to_take(&self, kind: usize, seat: usize) -> Option<(usize, i64)> {
        let kind = self.kinds.get(kind)?;
        let seat = kind.seats.get(seat)?;
        let member = self
            .members
            .get(seat.member)
            .filter(|member| member.part == self.part)?;
        Some((seat.member, kind.potential + seat.price_of_next() - member.potential))
    }

    /// One partition of a kind changes hands.
    pub(super) fn pass(&mut self, kind: usize, from: usize, to: usize) {
        let Some(seats) = self.kinds.get_mut(kind).map(|kind| &mut kind.seats) else {
            return;
        };
        if let Some(seat) = seats.get_mut(from) {
            seat.count = seat.count.saturating_sub(1);
            if let Some(member) = self.members.get_mut(seat.member) {
                member.load = member.load.saturating_sub(1);
            }
        }
        if let Some(seat) = seats.get_mut(to) {
            seat.count += 1;
            if let Some(member) = self.members.get_mut(seat.member) {
                member.load += 1;
            }
        }
    }
}
