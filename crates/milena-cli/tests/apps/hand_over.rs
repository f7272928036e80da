//! Processes join and leave under load. Every record is handled once, and the records of a key in order.

use std::collections::BTreeSet;

use crate::{
    environment::{Environment, PARTITIONS, PROTOCOLS, until},
    handled_log::Expected,
    load::Load,
    worker::HANDLE,
    workers::Workers,
};

const TOPIC: &str = "hand-over";
/// The number of records that proves that a process works.
const ENOUGH: usize = 30;

enum Step {
    Join(&'static str),
    /// The process that leaves, and the ones that must take over.
    Leave(&'static str, &'static [&'static str]),
}

const STEPS: [Step; 7] = [
    Step::Join("a"),
    Step::Join("b"),
    Step::Join("c"),
    Step::Leave("a", &["b", "c"]),
    Step::Join("d"),
    Step::Leave("b", &["c", "d"]),
    Step::Leave("c", &["d"]),
];

pub async fn run(env: &Environment) -> String {
    let dir = tempfile::tempdir().unwrap();
    env.create(TOPIC, PARTITIONS).await;
    let mut crews = PROTOCOLS.map(|protocol| Workers::new(env, TOPIC, protocol, dir.path()));
    for workers in &crews {
        env.raise_session_timeout(&workers.group).await;
    }
    let load = Load::start(env.address(), TOPIC, 5);
    for step in STEPS {
        for workers in &mut crews {
            match step {
                Step::Join(name) => workers.start(name, HANDLE),
                Step::Leave(name, _) => workers.stop(name).await,
            }
        }
        for workers in &crews {
            match step {
                Step::Join(name) => workers.works(name, ENOUGH).await,
                Step::Leave(_, others) => {
                    for name in others {
                        workers.works(name, ENOUGH).await;
                    }
                }
            }
        }
    }
    let counts = load.end().await;
    let total = usize::try_from(counts.iter().sum::<i64>()).unwrap();
    for workers in &mut crews {
        let what = format!("{} handles all of {counts:?}", workers.group);
        until(&what, async || workers.handled_log.handled().len() >= total).await;
        workers.stop_all().await;
        let mut expected = Expected::new(&counts, &BTreeSet::new());
        expected.see(&workers.group, &workers.handled_log.lines());
        expected.assert_all_came(&workers.group);
        env.assert_all_committed(&workers.group, TOPIC, &counts).await;
    }
    format!("{total} records, each once and in order, for both groups")
}
