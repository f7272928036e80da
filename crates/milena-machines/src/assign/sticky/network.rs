//! Members, kinds of partitions, and the number of partitions of each member and kind.

use std::{cmp::Reverse, collections::BinaryHeap};

use bytestring::ByteString;

use milena_invariant::violated;

use super::{super::group::Group, kinds::Kind};

/// The cost of a partition that does not stay with its owner.
const MOVE: i64 = 1000;
/// The cost of a partition without a replica in the rack of its member. As in Kafka, that is worth one move; it is not
/// worth two. The number is odd so that a few moves never cost exactly as much as a few racks.
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
    /// The number of its partitions.
    pub(super) load: usize,
    /// The part of the group that it belongs to.
    part: usize,
    pub(super) potential: i64,
    /// Its seats: the kind, and the index there.
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
    /// The number of partitions that it has.
    pub(super) count: usize,
    /// The number of partitions that it owned.
    pub(super) home: usize,
    /// Whether its rack has no replica of them.
    far: bool,
}

impl Seat {
    /// The cost of one more partition here.
    fn cost_of_next(&self) -> i64 {
        self.cost(self.count < self.home)
    }

    /// The cost of the last partition here.
    fn cost_of_last(&self) -> i64 {
        self.cost(self.count <= self.home)
    }

    fn cost(&self, is_home: bool) -> i64 {
        FAR * i64::from(self.far) - MOVE * i64::from(is_home)
    }
}

impl Network {
    /// Puts each partition where it is cheapest, however many a member has then; of several such members, with the
    /// least loaded.
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

    /// Begins with owned partitions that are near; without near members, with all owned ones.
    fn add(&mut self, place: usize, mut seats: Vec<Seat>) {
        let any_is_near = seats.iter().any(|seat| !seat.far);
        for (number, seat) in seats.iter_mut().enumerate() {
            if !(seat.far && any_is_near) {
                seat.count = seat.home;
            }
            if let Some(member) = self.members.get_mut(seat.member) {
                member.load += seat.count;
                member.seats.push((place, number));
            }
        }
        self.kinds.push(Seats {
            potential: if any_is_near { 0 } else { -FAR },
            seats,
        });
    }

    /// Assigns the rest of `units` partitions of a kind, each to the least loaded of the nearest members.
    fn fill(&mut self, place: usize, units: usize) {
        let Some(kind) = self.kinds.get_mut(place) else {
            violated!("every_kind_is_in_the_network");
            return;
        };
        let taken: usize = kind.seats.iter().map(|seat| seat.count).sum();
        if taken == units {
            return;
        }
        let any_is_near = kind.seats.iter().any(|seat| !seat.far);
        let seats = kind.seats.iter().enumerate();
        let eligible = seats.filter(|(_, seat)| !(seat.far && any_is_near));
        let load = |seat: &Seat| self.members.get(seat.member).map_or(0, |member| member.load);
        let mut by_load: BinaryHeap<Reverse<(usize, usize)>> =
            eligible.map(|(number, seat)| Reverse((load(seat), number))).collect();
        for _ in taken..units {
            let Some(mut least) = by_load.peek_mut() else {
                violated!("every_kind_has_a_subscriber");
                return;
            };
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

    /// The reduced cost at which `member` passes on a partition of a kind: zero or more. `None` if it has none.
    pub(super) fn cost_to_give(&self, member: usize, kind: usize, seat: usize) -> Option<i64> {
        let kind = self.kinds.get(kind)?;
        let seat = kind.seats.get(seat).filter(|seat| seat.count > 0)?;
        Some(self.potential(member) - seat.cost_of_last() - kind.potential)
    }

    /// The member of a seat and the reduced cost of giving it a partition: zero or more. `None` if it belongs to
    /// another part.
    pub(super) fn cost_to_take(&self, kind: usize, seat: usize) -> Option<(usize, i64)> {
        let kind = self.kinds.get(kind)?;
        let seat = kind.seats.get(seat)?;
        let member = self
            .members
            .get(seat.member)
            .filter(|member| member.part == self.part)?;
        Some((seat.member, kind.potential + seat.cost_of_next() - member.potential))
    }

    /// Moves one partition of a kind.
    pub(super) fn pass(&mut self, kind: usize, from: usize, to: usize) {
        let Some(seats) = self.kinds.get_mut(kind).map(|kind| &mut kind.seats) else {
            violated!("every_kind_is_in_the_network");
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
