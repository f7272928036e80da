//! A process is killed while records of some keys hang and others overtake them. What its last commit tells as done, below
//! the offset and in the map above it, was done and is never done again; all else is.

use crate::{
    crew::Crew,
    ledger::{Expected, handled},
    load::Load,
    stage::{PARTITIONS, PROTOCOLS, Stage, until},
    worker::{HANDLE, HANG},
};

const TOPIC: &str = "crash";
/// How many records must be done above each committed offset.
const ABOVE: usize = 100;

pub async fn run(stage: &Stage) -> String {
    let dir = tempfile::tempdir().unwrap();
    stage.create(TOPIC, PARTITIONS).await;
    let mut crews = PROTOCOLS.map(|protocol| Crew::new(stage, TOPIC, protocol, dir.path()));
    let load = Load::start(stage.address(), TOPIC, 5);
    let mut found = vec![];
    for crew in &mut crews {
        crew.start("a", HANG);
    }
    for crew in &mut crews {
        until(&format!("{} commits maps", crew.group), async || {
            let (_, above) = stage.done(&crew.group, TOPIC).await;
            above.iter().all(|above| *above >= ABOVE)
        })
        .await;
        crew.works("a", 1).await;
        crew.kill("a");
        let lines = crew.ledger.lines();
        let (done, above) = stage.done(&crew.group, TOPIC).await;
        let handled = handled(&lines);
        let early: Vec<_> = done.difference(&handled).collect();
        assert!(early.is_empty(), "{}: committed and not done: {early:?}", crew.group);
        let again = handled.len() - done.len();
        found.push((lines.len(), done, above.iter().sum::<usize>(), again));
        crew.start("b", HANDLE);
    }
    for crew in &crews {
        crew.works("b", 100).await;
    }
    let counts = load.end().await;
    let total = usize::try_from(counts.iter().sum::<i64>()).unwrap();
    let mut told = vec![];
    for (crew, (killed_at, done, above, again)) in crews.iter_mut().zip(found) {
        let what = format!("{} handles all of {counts:?}", crew.group);
        until(&what, async || crew.ledger.handled().len() >= total).await;
        crew.stop_all().await;
        let mut expected = Expected::new(&counts, &done);
        expected.see(&crew.group, &crew.ledger.lines()[killed_at..]);
        expected.assert_all_came(&crew.group);
        stage.assert_all_committed(&crew.group, TOPIC, &counts).await;
        told.push(format!(
            "{} done above the commit and not again, {again} after it and again",
            above
        ));
    }
    format!("{total} records, none lost; {}", told.join("; "))
}
