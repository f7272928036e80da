//! Java's consumers in groups while the broker is killed and restarted.

use crate::{process::Process, program::Program};

/// Short intervals, so that members notice changes soon. The session timeout is short too, but long enough for a busy
/// machine.
pub const SETTINGS: [&str; 8] = [
    "-X",
    "group.consumer.min.session.timeout.ms=15000",
    "-X",
    "group.consumer.session.timeout.ms=15000",
    "-X",
    "group.consumer.min.heartbeat.interval.ms=300",
    "-X",
    "group.consumer.heartbeat.interval.ms=300",
];

#[test]
fn groups_of_every_kind_survive_what_happens_to_members_and_broker() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(dir.path(), &SETTINGS);
    let address = broker.address.clone();
    let mut groups = Program::java("kafka", "Groups.java", &[&address]);
    groups.wait_for("restart the broker");
    broker.kill();
    let broker = Process::start_at(&address, dir.path(), &SETTINGS);
    groups.say("done");
    let said = groups.succeed();
    assert!(said.ends_with("all as expected\n"), "{said}");
    assert!(broker.terminate().success());
}
