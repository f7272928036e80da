//! Exactly once: output of handlers and offsets of partitions, in one transaction.

use milena_machines::app::{CommitOffset, Publish, PublishResult, RecordId};

use super::{
    Event, Life, World,
    driver::{Instance, Run, apply, held_record, write},
};
use crate::Mutation;

/// Writes that are not committed.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    writes: Vec<Write>,
}

/// A write of a transaction.
#[derive(Debug, Clone)]
struct Write {
    run: Run,
    what: Publish,
    /// Its offset, if it must be known before the end.
    place: Option<(usize, i64)>,
}

#[derive(Debug, Clone)]
pub(super) struct Ending {
    offsets: Vec<(usize, CommitOffset)>,
    writes: Vec<Write>,
    pub(super) committed: bool,
    /// Its acknowledgement is in flight.
    pub(super) answered: bool,
}

impl Instance {
    /// The producer takes output in the order of the calls. Half of the acknowledgements come later, so that records of the
    /// same key pass each other.
    pub(super) fn write_in_transaction(&mut self, world: &mut World, life: Life, record: RecordId, what: Publish) {
        let mut result = PublishResult::Acked;
        let is_late = what == Publish::Output && !world.plan.holds_keys() && world.random.below(2) == 0;
        if let Some(run) = self.publishing.get(&record).cloned() {
            let held = world.plan.held_of(run.data.origin).filter(|_| is_held(what));
            let place = held.map(|held| (held, world.cluster.reserve(held, run.data.key)));
            result = place.map_or(result, |(_, offset)| PublishResult::AckedAt(offset));
            if what == Publish::Output {
                world.checks.wrote(&world.plan, &run);
            }
            self.transaction.writes.push(Write {
                run: run.clone(),
                what,
                place,
            });
            if is_late {
                self.acknowledge_later(world, life, record);
                return self.take(world, &run, false);
            }
            world.checks.over(&run);
            self.publishing.remove(&record);
        }
        if let Some(work) = &mut self.work {
            work.handle_published(world.queue.now(), record, result);
        }
    }

    /// An acknowledgement arrives late, or a failure, after which the transaction can only be aborted.
    pub(super) fn published_in_transaction(&mut self, world: &mut World, life: Life, record: RecordId, acked: bool) {
        let Some(run) = self.publishing.remove(&record) else {
            return;
        };
        let Some(work) = &mut self.work else { return };
        if acked {
            world.checks.over(&run);
            work.handle_published(world.queue.now(), record, PublishResult::Acked);
        } else if work.payload(record).is_some() {
            work.handle_published(world.queue.now(), record, PublishResult::Failed);
            work.end_barrier(world.queue.now(), false);
            self.transaction.give_up(world);
            let all = self.held.keys().copied().collect();
            self.read_again(world, life, all);
        }
    }

    pub(super) fn window(&mut self, world: &mut World, life: Life) {
        let window_ms = if world.is_quiet() { 500 } else { 100 };
        world.queue.after(window_ms, Event::Window(life));
        if self.work.as_ref().is_some_and(|work| work.has_uncommitted()) {
            self.begin_barrier(world);
        }
    }

    pub(super) fn begin_barrier(&mut self, world: &mut World) {
        if let Some(work) = &mut self.work {
            work.begin_barrier(world.queue.now());
        }
    }

    pub(super) fn end_transaction(&mut self, world: &mut World, life: Life) {
        let Some(work) = &mut self.work else { return };
        let mut offsets = vec![];
        let all = work.barrier_offsets(world.queue.now());
        if all.is_none() && world.plan.mutation != Some(Mutation::CommitSpoiled) {
            self.transaction.give_up(world);
            return self.transaction_ended(world, life, false);
        }
        for offset in all.unwrap_or_default() {
            if let Some((partition, _)) = self.held.iter().find(|(_, held)| held.id == offset.id) {
                offsets.push((*partition, offset));
            }
        }
        let ending = Ending {
            offsets,
            writes: std::mem::take(&mut self.transaction.writes),
            committed: false,
            answered: false,
        };
        let takes_ms = 1 + world.random.below(50) as i64;
        world.queue.after(takes_ms, Event::TransactionEnds(life, ending));
    }

    pub(super) fn transaction_ended(&mut self, world: &mut World, life: Life, committed: bool) {
        let now = world.queue.now();
        let Some(work) = &mut self.work else { return };
        let touched = work.end_barrier(now, committed);
        let again: Vec<usize> = self
            .held
            .iter()
            .filter(|(_, held)| touched.contains(&held.id))
            .map(|(partition, _)| *partition)
            .collect();
        self.read_again(world, life, again);
    }

    fn read_again(&mut self, world: &mut World, life: Life, partitions: Vec<usize>) {
        for partition in partitions {
            let id = self.held.get(&partition).map(|held| held.id);
            self.lose(world, partition);
            if world.cluster.keeps(life, partition) {
                self.assigned(world, partition);
            } else if let Some(id) = id {
                world.cluster.release(life, partition, id);
            }
        }
    }
}

impl Transaction {
    /// Nothing of it counts.
    pub(super) fn give_up(&mut self, world: &mut World) {
        for write in self.writes.drain(..) {
            if let Some((held, offset)) = write.place {
                world.cluster.end_reserved(held, offset, None);
            }
        }
    }
}

fn is_held(what: Publish) -> bool {
    matches!(what, Publish::HeldKeys { .. })
}

/// It reaches the coordinator: all of it counts, or nothing.
pub(super) fn arrives(world: &mut World, life: Life, mut ending: Ending) {
    let owned = ending
        .offsets
        .iter()
        .all(|(partition, offset)| world.cluster.is_owner(life, *partition, offset.id));
    ending.committed = owned && !world.commits_fail;
    for Write { run, what, place } in &ending.writes {
        if let Some((held, offset)) = place {
            let record = ending.committed.then(|| held_record(run, *what));
            world.cluster.end_reserved(*held, *offset, record);
        }
        if !ending.committed {
            continue;
        }
        if *what == Publish::Output {
            world.checks.effect(&world.plan, &world.cluster, &run.data);
        }
        if place.is_none() {
            write(world, run, *what);
        }
        world.checks.settle(run.partition, run.offset);
    }
    if ending.committed {
        apply(world, &ending.offsets);
    }
    world.note(|| format!("transaction of {} is committed: {}", life.tag(), ending.committed));
    ending.answered = true;
    let takes_ms = 1 + world.random.below(30) as i64;
    world.queue.after(takes_ms, Event::TransactionEnds(life, ending));
}
