//! Cheapest flows of partitions from members with too many to members with too few.
//!
//! A member can pass a partition on to any other subscriber of its topic, which can pass on one of another topic, and
//! so forth; only the two ends of such a path have fewer or more partitions than before. A path has a cost: a partition
//! that leaves its owner costs something, one that returns to its owner gives that back, and the same for racks.
//!
//! Partitions always take a cheapest path. By the theory of minimum cost flows, no other assignment with the same
//! numbers for each member then costs less. So few partitions move, without a search for them.
//!
//! To find cheapest paths quickly, members and kinds have potentials that make the cost of every step zero or more
//! (Johnson), and one search serves all paths of the same cost (Dinic).

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
};

use milena_invariant::violated;

use super::network::Network;

/// The levels that separate givers from takers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Levels {
    /// Members with more give, down to this.
    pub(super) floor: usize,
    /// Members with fewer take, up to this.
    pub(super) ceiling: usize,
}

/// The distance from the givers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Distance {
    cost: i64,
    steps: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Member(usize),
    Kind(usize),
}

/// The frontier of the search, the nearest first.
type Frontier = BinaryHeap<Reverse<(Distance, Node)>>;

/// The result of a search.
#[derive(Debug)]
struct Search {
    members: Vec<Visited>,
    kinds: Vec<Visited>,
    /// The potential of members with which cheapest paths begin, and end.
    start: i64,
    end: i64,
    /// The cost of the cheapest paths.
    cost: i64,
}

#[derive(Debug, Clone, Default)]
struct Visited {
    distance: Option<Distance>,
    /// The first of its seats that may still lead on.
    next: usize,
}

/// A step: a partition of a kind goes from one seat to another.
#[derive(Debug, Clone, Copy)]
struct Step {
    kind: usize,
    from: usize,
    to: usize,
    /// The member of that seat.
    member: usize,
}

impl Network {
    /// Sends partitions from members above the floor to members below the ceiling, inside one part of the group, until
    /// there is no path; or, if `only_gain`, as long as it lowers the total cost.
    pub(super) fn send(&mut self, part: &[usize], levels: Levels, only_gain: bool) {
        while let Some(mut search) = self.search(part, levels) {
            if only_gain && search.cost >= 0 {
                return;
            }
            for giver in part {
                while self.load(*giver) > levels.floor && self.potential(*giver) == search.start {
                    let Some(path) = self.path(*giver, levels, &mut search) else {
                        break; // No path of this cost is left.
                    };
                    for step in path {
                        self.pass(step.kind, step.from, step.to);
                    }
                }
            }
        }
    }

    /// Computes distances up to the nearest taker, and updates the potentials so that the steps of cheapest paths cost
    /// nothing. `None` if no taker can be reached.
    fn search(&mut self, part: &[usize], levels: Levels) -> Option<Search> {
        let givers = part.iter().filter(|member| self.load(**member) > levels.floor);
        let takers = part.iter().filter(|member| self.load(**member) < levels.ceiling);
        let start = givers.clone().map(|member| self.potential(*member)).max()?;
        let end = takers.map(|member| self.potential(*member)).min()?;
        let mut search = Search {
            members: vec![Visited::default(); self.members.len()],
            kinds: vec![Visited::default(); self.kinds.len()],
            start,
            end,
            cost: 0,
        };
        let mut frontier = Frontier::new();
        for giver in givers {
            let cost = start - self.potential(*giver);
            search.reach(Node::Member(*giver), Distance { cost, steps: 0 }, &mut frontier);
        }
        let nearest = self.explore(levels, &mut search, &mut frontier)?;
        let nearer = |visited: &Visited| visited.distance.map_or(0, |distance| (distance.cost - nearest).min(0));
        for (member, visited) in self.members.iter_mut().zip(&search.members) {
            member.potential += nearer(visited);
        }
        for (kind, visited) in self.kinds.iter_mut().zip(&search.kinds) {
            kind.potential += nearer(visited);
        }
        search.start = start - nearest;
        search.cost = nearest + end - start;
        Some(search)
    }

    /// Visits nodes by distance (Dijkstra); returns the distance of the nearest end of a path.
    fn explore(&self, levels: Levels, search: &mut Search, frontier: &mut Frontier) -> Option<i64> {
        let mut nearest: Option<i64> = None;
        while let Some(Reverse((distance, node))) = frontier.pop() {
            if nearest.is_some_and(|nearest| nearest < distance.cost) {
                break;
            }
            if search.distance(node) != Some(distance) {
                continue;
            }
            let on = |cost: i64| Distance {
                cost: distance.cost + cost,
                steps: distance.steps + 1,
            };
            match node {
                Node::Member(place) => {
                    let Some(member) = self.members.get(place) else {
                        violated!("every_member_is_in_the_network");
                        continue;
                    };
                    if member.load < levels.ceiling {
                        let total = distance.cost + member.potential - search.end;
                        nearest = Some(nearest.map_or(total, |nearest| nearest.min(total)));
                    }
                    for (kind, seat) in &member.seats {
                        if let Some(cost) = self.cost_to_give(place, *kind, *seat) {
                            search.reach(Node::Kind(*kind), on(cost), frontier);
                        }
                    }
                }
                Node::Kind(kind) => {
                    let seats = self.kinds.get(kind).map_or(0, |kind| kind.seats.len());
                    for seat in 0..seats {
                        if let Some((member, cost)) = self.cost_to_take(kind, seat) {
                            search.reach(Node::Member(member), on(cost), frontier);
                        }
                    }
                }
            }
        }
        nearest
    }

    /// A cheapest path from a giver to a taker that is not used up. Every search tries each seat once.
    fn path(&self, giver: usize, levels: Levels, search: &mut Search) -> Option<Vec<Step>> {
        let mut path: Vec<Step> = vec![];
        let mut member = giver;
        loop {
            let is_end = self.load(member) < levels.ceiling && self.potential(member) == search.end;
            if is_end && !path.is_empty() {
                return Some(path);
            }
            if let Some(step) = self.step(member, search) {
                member = step.member;
                path.push(step);
            } else {
                // A dead end: other paths to that kind take another seat.
                let dead_end = path.pop()?;
                search.pass_by_kind(dead_end.kind);
                member = path.last().map_or(giver, |step| step.member);
            }
        }
    }

    /// The next step from a member that is on a cheapest path.
    fn step(&self, member: usize, search: &mut Search) -> Option<Step> {
        let seats = &self.members.get(member)?.seats;
        let steps = search.distance(Node::Member(member))?.steps;
        while let Some((kind, from)) = seats.get(search.members.get(member)?.next).copied() {
            let reaches =
                |search: &Search, node, steps| search.distance(node).is_some_and(|there| there.steps == steps);
            if self.cost_to_give(member, kind, from) == Some(0) && reaches(search, Node::Kind(kind), steps + 1) {
                let seats = self.kinds.get(kind)?.seats.len();
                while let Some(to) = search.kinds.get(kind).map(|kind| kind.next).filter(|to| *to < seats) {
                    match self.cost_to_take(kind, to) {
                        Some((member, 0)) if reaches(search, Node::Member(member), steps + 2) => {
                            return Some(Step { kind, from, to, member });
                        }
                        _ => search.pass_by_kind(kind),
                    }
                }
            }
            search.members.get_mut(member)?.next += 1;
        }
        None
    }

    /// Splits a part in two: members above `level` with all that they can pass partitions to; and the rest.
    pub(super) fn split(&self, part: &[usize], level: usize) -> (Vec<usize>, Vec<usize>) {
        let above = part.iter().copied().filter(|member| self.load(*member) > level);
        let mut upper: BTreeSet<usize> = above.collect();
        let mut open: Vec<usize> = upper.iter().copied().collect();
        let mut seen = vec![false; self.kinds.len()];
        while let Some(member) = open.pop() {
            let seats = self.members.get(member).map(|member| member.seats.as_slice());
            for (kind, seat) in seats.unwrap_or_default() {
                let can_give = self.cost_to_give(member, *kind, *seat).is_some();
                let Some(seen) = seen.get_mut(*kind).filter(|seen| can_give && !**seen) else {
                    continue; // Nothing to pass on, or visited before.
                };
                *seen = true;
                let seats = self.kinds.get(*kind).map_or(0, |kind| kind.seats.len());
                let takers = (0..seats).filter_map(|seat| self.cost_to_take(*kind, seat));
                open.extend(takers.map(|(taker, _)| taker).filter(|taker| upper.insert(*taker)));
            }
        }
        part.iter().partition(|member| upper.contains(*member))
    }
}

impl Search {
    fn distance(&self, node: Node) -> Option<Distance> {
        let visited = match node {
            Node::Member(member) => self.members.get(member),
            Node::Kind(kind) => self.kinds.get(kind),
        };
        visited?.distance
    }

    fn reach(&mut self, node: Node, distance: Distance, frontier: &mut Frontier) {
        let visited = match node {
            Node::Member(member) => self.members.get_mut(member),
            Node::Kind(kind) => self.kinds.get_mut(kind),
        };
        if let Some(visited) = visited.filter(|visited| visited.distance.is_none_or(|known| distance < known)) {
            visited.distance = Some(distance);
            frontier.push(Reverse((distance, node)));
        }
    }

    fn pass_by_kind(&mut self, kind: usize) {
        if let Some(kind) = self.kinds.get_mut(kind) {
            kind.next += 1;
        }
    }
}
