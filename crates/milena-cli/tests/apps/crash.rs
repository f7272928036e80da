//! A process is killed while records of some keys hang and others overtake them. Records that its last commit covers,
//! below the offset or in the map above it, are never handled again; all others are.

use crate::{
    environment::{Environment, PARTITIONS, PROTOCOLS, until},
    handled_log::{Expected, handled},
    load::Load,
    worker::{HANDLE, HANG},
    workers::Workers,
};

const TOPIC: &str = "crash";
/// The number of finished records above each committed offset that the test waits for.
const ABOVE: usize = 100;

pub async fn run(env: &Environment) -> String {
    let dir = tempfile::tempdir().unwrap();
    env.create(TOPIC, PARTITIONS).await;
    let mut crews = PROTOCOLS.map(|protocol| Workers::new(env, TOPIC, protocol, dir.path()));
    let load = Load::start(env.address(), TOPIC, 5);
    let mut found = vec![];
    for workers in &mut crews {
        workers.start("a", HANG);
    }
    for workers in &mut crews {
        until(&format!("{} commits maps", workers.group), async || {
            let (_, above) = env.done(&workers.group, TOPIC).await;
            above.iter().all(|above| *above >= ABOVE)
        })
        .await;
        workers.works("a", 1).await;
        workers.kill("a");
        let lines = workers.handled_log.lines();
        let (done, above) = env.done(&workers.group, TOPIC).await;
        let handled = handled(&lines);
        let early: Vec<_> = done.difference(&handled).collect();
        assert!(early.is_empty(), "{}: committed and not done: {early:?}", workers.group);
        let again = handled.len() - done.len();
        found.push((lines.len(), done, above.iter().sum::<usize>(), again));
        workers.start("b", HANDLE);
    }
    for workers in &crews {
        workers.works("b", 100).await;
    }
    let counts = load.end().await;
    let total = usize::try_from(counts.iter().sum::<i64>()).unwrap();
    let mut told = vec![];
    for (workers, (killed_at, done, above, again)) in crews.iter_mut().zip(found) {
        let what = format!("{} handles all of {counts:?}", workers.group);
        until(&what, async || workers.handled_log.handled().len() >= total).await;
        workers.stop_all().await;
        let mut expected = Expected::new(&counts, &done);
        expected.see(&workers.group, &workers.handled_log.lines()[killed_at..]);
        expected.assert_all_came(&workers.group);
        env.assert_all_committed(&workers.group, TOPIC, &counts).await;
        told.push(format!(
            "{} done above the commit and not again, {again} after it and again",
            above
        ));
    }
    format!("{total} records, none lost; {}", told.join("; "))
}
