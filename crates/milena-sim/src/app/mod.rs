//! Applications that read a topic together: the real machine of each, and a simple model of the group, of the logs and
//! of the handlers.

mod checks;
mod cluster;
mod database;
mod driver;
mod plan;
mod record;
mod transaction;

use milena_machines::{
    Random,
    app::{RecordId, SourceId},
};

use crate::{
    Mutation, Outcome,
    history::History,
    play::{Play, play},
    queue::Queue,
    simulation::START_MS,
};
use checks::Checks;
use cluster::Cluster;
use database::Database;
use driver::Instance;
use plan::Plan;

/// Events of a run.
#[derive(Debug, Clone)]
enum Event {
    /// An instance starts.
    Start(usize),
    /// A timer of its machine.
    Wake(Life),
    /// It polls.
    Poll(Life),
    /// Records that it has read reach its application.
    Arrive(Life, driver::Fetched),
    HandlerEnds(Life, driver::Run),
    RunEnds(Life, RecordId),
    /// A record crashes the process of its handler.
    Kills(Life, RecordId),
    Published(Life, driver::Publishing),
    CommitArrives(Life, driver::Commit),
    CommitAnswered(Life, SourceId, milena_machines::app::CommitResult),
    /// The window of its transaction is over.
    Window(Life),
    TransactionEnds(Life, transaction::Ending),
    /// It gets the committed offset of the group of the held-keys topic.
    HeldAnswered(Life, Vec<milena_machines::app::PartitionId>),
    /// It learns that its partitions are lost.
    HearsLoss(Life, Vec<usize>),
    /// Its session is over.
    Expires(Life),
    /// An operator checks partitions that are paused.
    Operator(Life),
    Produce,
    Fault(Fault),
    FaultsStop,
}

/// An instance from its start to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Life {
    instance: usize,
    number: u64,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Crash(usize),
    /// It stops in order, and comes back.
    Stop(usize),
    /// The group takes all its partitions without a revocation.
    Expel(usize),
    Dependency {
        fails: bool,
    },
    Publishing {
        fails: bool,
    },
    Commits {
        fails: bool,
    },
}

/// The shared state of a run.
#[derive(Debug)]
struct World {
    queue: Queue<Event>,
    random: Random,
    history: History,
    checks: Checks,
    cluster: Cluster,
    /// The database of handlers whose offsets are stored with their effects.
    database: Option<Database>,
    plan: Plan,
    dependency_fails: bool,
    publishing_fails: bool,
    commits_fail: bool,
    last_life: u64,
}

impl World {
    fn note(&mut self, line: impl FnOnce() -> String) {
        self.history.note(self.queue.now(), line);
    }

    /// Whether all writes and faults are over: time may pass in larger steps.
    fn is_quiet(&self) -> bool {
        self.queue.now() > START_MS + self.plan.faults_ms + 2_000
    }
}

#[derive(Debug)]
struct Apps {
    world: World,
    instances: Vec<Instance>,
}

pub(crate) fn run(seed: u64, mutation: Option<Mutation>, with_history: bool) -> Outcome {
    let mut random = Random::new(seed);
    let plan = Plan::new(&mut random, mutation);
    let end = START_MS + plan.end_ms;
    let mut apps = Apps {
        instances: (0..plan.instances).map(|_| Instance::default()).collect(),
        world: World {
            queue: Queue::new(START_MS),
            random,
            history: History::new(with_history),
            checks: Checks::new(&plan),
            cluster: Cluster::new(&plan),
            database: plan.stores.then(|| Database::new(&plan)),
            dependency_fails: false,
            publishing_fails: false,
            commits_fail: false,
            last_life: 0,
            plan,
        },
    };
    let World { history, plan, .. } = &mut apps.world;
    history.note(START_MS, || format!("{plan:?}"));
    apps.schedule();
    play(apps, end)
}

impl Play for Apps {
    type Event = Event;

    fn queue(&mut self) -> &mut Queue<Event> {
        &mut self.world.queue
    }

    fn failure(&mut self) -> &mut Option<String> {
        &mut self.world.checks.failure
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Start(instance) => self.start(instance),
            Event::Produce => self.world.cluster.produce(&self.world.plan, &mut self.world.random),
            Event::Fault(fault) => self.fault(fault),
            Event::FaultsStop => {
                self.world.note(|| "faults stop".to_owned());
                self.world.dependency_fails = false;
                self.world.publishing_fails = false;
                self.world.commits_fail = false;
            }
            Event::Wake(life)
            | Event::Poll(life)
            | Event::Arrive(life, _)
            | Event::HandlerEnds(life, _)
            | Event::RunEnds(life, _)
            | Event::Kills(life, _)
            | Event::Published(life, _)
            | Event::CommitArrives(life, _)
            | Event::CommitAnswered(life, ..)
            | Event::Window(life)
            | Event::TransactionEnds(life, _)
            | Event::HeldAnswered(life, _)
            | Event::HearsLoss(life, _)
            | Event::Operator(life)
            | Event::Expires(life) => self.happen_to(life, event),
        }
        self.rebalance();
    }

    /// Long after the last fault.
    fn check_settled(&mut self) {
        let world = &mut self.world;
        for instance in &self.instances {
            if let Err(what) = instance.check_settled(world) {
                return world.checks.fail(what);
            }
        }
        let held = world.cluster.check_settled(&world.plan, world.database.as_ref());
        if let Err(what) = held {
            return world.checks.fail(what);
        }
        world.checks.settled(&world.plan, &world.cluster);
    }

    fn into_history(self) -> History {
        self.world.history
    }
}

impl Apps {
    fn happen_to(&mut self, life: Life, event: Event) {
        let world = &mut self.world;
        let is_alive = |instances: &[Instance]| instances.get(life.instance).is_some_and(|it| it.life == Some(life));
        if let Event::Expires(_) = event {
            return world.cluster.expire(life);
        }
        // A commit that was sent reaches the group whatever becomes of its sender.
        if let Event::CommitArrives(_, commit) = event {
            if commit.is_lost_with_its_sender() && !is_alive(&self.instances) {
                return;
            }
            return driver::commit_arrives(world, life, commit);
        }
        if let Event::TransactionEnds(_, ending) = &event
            && !ending.answered
        {
            return transaction::arrives(world, life, ending.clone());
        }
        if !is_alive(&self.instances) {
            return;
        }
        let Some(instance) = self.instances.get_mut(life.instance) else {
            return;
        };
        if let Event::Kills(_, record) = event {
            if instance.is_killed_by(world, record) {
                self.fault(Fault::Crash(life.instance));
            }
            return;
        }
        let joins_again = world.database.is_some() && matches!(event, Event::HearsLoss(..));
        instance.happen(world, event);
        if joins_again && !instance.is_stopping() {
            world.cluster.leave(life);
            world.cluster.join(life);
        }
        instance.pump(world);
    }

    fn start(&mut self, index: usize) {
        let world = &mut self.world;
        let Some(instance) = self.instances.get_mut(index) else {
            return;
        };
        if instance.life.is_some() {
            return;
        }
        world.last_life += 1;
        let life = Life {
            instance: index,
            number: world.last_life,
        };
        world.note(|| format!("{index} starts"));
        instance.start(world, life);
        world.cluster.join(life);
    }

    fn fault(&mut self, fault: Fault) {
        let world = &mut self.world;
        world.note(|| format!("{fault:?}"));
        match fault {
            Fault::Crash(index) => {
                let Some(instance) = self.instances.get_mut(index) else {
                    return;
                };
                let Some(life) = instance.life.take() else { return };
                instance.transaction.give_up(world);
                world.checks.crashed();
                world.checks.died_as_owner(world.cluster.owned_by(life));
                let session_ms = 1_000 + world.random.below(3_000) as i64;
                world.queue.after(session_ms, Event::Expires(life));
                world
                    .queue
                    .after(1 + world.random.below(6_000) as i64, Event::Start(index));
            }
            Fault::Stop(index) => {
                let again_ms = 500 + world.random.below(8_000) as i64;
                if let Some(instance) = self.instances.get_mut(index).filter(|it| it.life.is_some()) {
                    instance.stop(world, again_ms);
                    instance.pump(world);
                }
            }
            Fault::Expel(index) => {
                let Some(life) = self.instances.get(index).and_then(|instance| instance.life) else {
                    return;
                };
                world.checks.crashed();
                world.checks.died_as_owner(world.cluster.owned_by(life));
                let lost = world.cluster.expel(life);
                if world.database.is_some() {
                    // Others get its partitions while it goes on with its records.
                    world.cluster.leave(life);
                }
                let heard_ms = world.random.below(3_000) as i64;
                world.queue.after(heard_ms, Event::HearsLoss(life, lost));
            }
            Fault::Dependency { fails } => world.dependency_fails = fails,
            Fault::Publishing { fails } => world.publishing_fails = fails,
            Fault::Commits { fails } => world.commits_fail = fails,
        }
    }

    /// The group assigns partitions to members, and revokes those that are to move.
    fn rebalance(&mut self) {
        let world = &mut self.world;
        for step in world.cluster.rebalance() {
            let (cluster::Step::Assign(life, _) | cluster::Step::Revoke(life, _)) = step;
            let Some(instance) = self.instances.get_mut(life.instance).filter(|it| it.life == Some(life)) else {
                continue;
            };
            match step {
                cluster::Step::Assign(_, partition) => instance.assigned(world, partition),
                cluster::Step::Revoke(_, partition) => instance.revoking(world, partition),
            }
            instance.pump(world);
        }
    }
}
