//! One record for each poll, as applications read that cannot do with several at once.

use anyhow::Result;

use super::{
    PARTITIONS, Plan, Race,
    consumers::LARGE_BATCHES,
    in_turn,
    standings::{Bar, Standings},
};
use crate::{
    child::Started,
    peers::Running,
    readers::{self, Job, Reader},
};

pub const RACE: Race = Race {
    name: "small-polls",
    run,
};

const FIGURES: &[&str] = &["M polls/s", "CPU ns/poll"];
const BARS: &[(usize, Bar)] = &[(0, Bar::AtLeast(1.0)), (0, Bar::AboveAllPeers)];

fn run(plan: &Plan) -> Result<String> {
    let mut text = String::new();
    for peer in &plan.brokers {
        let broker = Running::start(*peer)?;
        let job = Job {
            address: broker.address.clone(),
            topic: "small-polls".to_owned(),
            partitions: PARTITIONS,
            records: (plan.scale.bytes() / 400) as u64,
            poll_records: 1,
            timed: 0,
        };
        LARGE_BATCHES.put(&broker.address, &job.topic, PARTITIONS, job.records)?;
        let title = format!("polls of one record of 100 B, read from {peer:?}");
        eprintln!("{title}");
        let mut standings = Standings::new(FIGURES);
        for round in 0..plan.rounds {
            for reader in in_turn(&plan.readers, round) {
                if reader == Reader::Raw {
                    continue;
                }
                match readers::start(reader, &job, &plan.programs).and_then(Started::wait) {
                    Ok(measured) => {
                        let rate = measured.polls / measured.seconds / 1e6;
                        standings.add(reader, vec![rate, measured.cpu_seconds / measured.polls * 1e9]);
                    }
                    Err(error) => eprintln!("{error:#}"),
                }
            }
        }
        text += &standings.show(&title, BARS);
    }
    Ok(text)
}
