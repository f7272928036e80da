//! Processes join and leave under load. Every record is handled once, and those of a key one after the other.

use std::collections::BTreeSet;

use crate::{
    crew::Crew,
    ledger::Expected,
    load::Load,
    stage::{PARTITIONS, PROTOCOLS, Stage, until},
    worker::HANDLE,
};

const TOPIC: &str = "hand-over";
/// How many records show that a process is at work.
const ENOUGH: usize = 30;

enum Step {
    Join(&'static str),
    /// Who leaves, and who must take over.
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

pub async fn run(stage: &Stage) -> String {
    let dir = tempfile::tempdir().unwrap();
    stage.create(TOPIC, PARTITIONS).await;
    let mut crews = PROTOCOLS.map(|protocol| Crew::new(stage, TOPIC, protocol, dir.path()));
    for crew in &crews {
        stage.be_patient_with(&crew.group).await;
    }
    let load = Load::start(stage.address(), TOPIC, 5);
    for step in STEPS {
        for crew in &mut crews {
            match step {
                Step::Join(name) => crew.start(name, HANDLE),
                Step::Leave(name, _) => crew.stop(name).await,
            }
        }
        for crew in &crews {
            match step {
                Step::Join(name) => crew.works(name, ENOUGH).await,
                Step::Leave(_, others) => {
                    for name in others {
                        crew.works(name, ENOUGH).await;
                    }
                }
            }
        }
    }
    let counts = load.end().await;
    let total = usize::try_from(counts.iter().sum::<i64>()).unwrap();
    for crew in &mut crews {
        let what = format!("{} handles all of {counts:?}", crew.group);
        until(&what, async || crew.ledger.handled().len() >= total).await;
        crew.stop_all().await;
        let mut expected = Expected::new(&counts, &BTreeSet::new());
        expected.see(&crew.group, &crew.ledger.lines());
        expected.assert_all_came(&crew.group);
        stage.assert_all_committed(&crew.group, TOPIC, &counts).await;
    }
    format!("{total} records, each once and in order, for both groups")
}
