//! The commands of `milena` on a real Apache Kafka.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use crate::programs::Kafka;

struct Bench {
    kafka: Kafka,
}

impl Bench {
    fn run(&self, line: &str, input: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
        command
            .args(line.split(' '))
            .env("MILENA_BOOTSTRAP", self.kafka.address());
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = piped.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    /// The output of a command that must succeed.
    fn prints(&self, line: &str) -> String {
        let output = self.run(line, "");
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The rows of a table, without its header.
    fn rows(&self, line: &str) -> Vec<Vec<String>> {
        let text = self.prints(line);
        let rows = text.lines().skip(1);
        rows.map(|row| row.split_whitespace().map(str::to_owned).collect())
            .collect()
    }

    fn fails(&self, line: &str) -> String {
        let output = self.run(line, "");
        assert!(!output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stderr).unwrap()
    }
}

/// A single test, because starting Kafka takes long.
#[test]
fn a_kafka_is_looked_after() {
    let bench = Bench {
        kafka: Kafka::start(19430),
    };
    records(&bench);
    groups(&bench);
    configs(&bench);
    let refused = bench.fails("topic trim compacted --before latest");
    assert!(refused.contains("compacted is compacted; only a topic"), "{refused}");
}

fn records(bench: &Bench) {
    assert!(bench.prints("cluster info").contains("serving"));
    assert_eq!(
        bench.prints("topic create letters -p 1 -r 1"),
        "created letters with 1 partition\n"
    );
    bench.prints("topic create compacted -p 3 -c cleanup.policy=compact");
    let refused = bench.fails("topic create words -p 1 -r 3");
    assert!(refused.contains("INVALID_REPLICATION_FACTOR"), "{refused}");
    let sent = bench.run("produce letters -K:", "vienna:a\nprague:b\nberlin:c\n");
    assert!(sent.status.success(), "{sent:?}");
    assert_eq!(bench.prints("consume letters -e -o -2 -f %k=%s;"), "prague=b;berlin=c;");
    assert_eq!(bench.prints("consume ^lett.* -e -n 1"), "a\n");
    assert_eq!(bench.prints("consume letters -e -g readers"), "a\nb\nc\n");
    assert!(bench.prints("perf consume letters").contains("\"records\":3"));
}

fn groups(bench: &Bench) {
    let offset = || bench.rows("group describe readers")[2][2].clone();
    assert_eq!(offset(), "3");
    assert_eq!(bench.rows("group reset readers --to earliest")[0][4], "0");
    assert_eq!(offset(), "3");
    for (place, expected) in [
        ("--to earliest", "0"),
        ("--shift-by 2", "2"),
        ("--by-duration PT1H", "0"),
        ("--to-latest", "3"),
        ("--to offset:99", "3"),
    ] {
        bench.prints(&format!("group reset readers --execute {place}"));
        assert_eq!(offset(), expected, "{place}");
    }
    assert_eq!(
        bench.prints("group delete-offsets readers -t letters"),
        "deleted the offset of letters-0\n"
    );
    bench.prints("group delete readers");
    assert!(bench.fails("group describe readers").contains("GROUP_ID_NOT_FOUND"));
}

fn configs(bench: &Bench) {
    for (entity, setting, source) in [
        ("topic letters", "retention.ms=86400000", "DYNAMIC_TOPIC_CONFIG"),
        ("broker 1", "log.cleaner.threads=2", "DYNAMIC_BROKER_CONFIG"),
        (
            "broker --default",
            "log.cleaner.threads=1",
            "DYNAMIC_DEFAULT_BROKER_CONFIG",
        ),
        (
            "group readers",
            "consumer.session.timeout.ms=50000",
            "DYNAMIC_GROUP_CONFIG",
        ),
    ] {
        let (key, value) = setting.split_once('=').unwrap();
        bench.prints(&format!("config alter {entity} --set {setting}"));
        // Kafka shows a change only a moment after it has accepted it.
        let shown = || {
            let rows = bench.rows(&format!("config describe {entity}"));
            rows.iter().any(|row| row[2..] == [key, value, source])
        };
        assert!((0..1000).any(|_| shown()), "{entity}: {setting}");
        bench.prints(&format!("config alter {entity} --delete {key}"));
    }
}
