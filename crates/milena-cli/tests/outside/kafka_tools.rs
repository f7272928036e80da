//! Kafka's command line tools, used on our broker.

use std::fs;

use crate::{
    process::Process,
    programs::{any_kafka_tool, kafka_tool},
};

/// A broker, and Kafka's tools for it.
pub struct Bench {
    pub dir: tempfile::TempDir,
    pub broker: Process,
}

impl Bench {
    pub fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let broker = Process::start(dir.path(), &[]);
        Self { dir, broker }
    }

    /// Runs a line such as `topics --list`; words must not contain spaces.
    pub fn run(&self, line: &str) -> String {
        self.run_with(line, "")
    }

    /// As [`Self::run`] for a tool that must fail. Returns its output.
    pub fn run_failing(&self, line: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (succeeded, text) = any_kafka_tool(&self.broker.address, words[0], &words[1..]);
        assert!(!succeeded, "{line}: {text}");
        text
    }

    fn run_with(&self, line: &str, input: &str) -> String {
        let words: Vec<&str> = line.split_whitespace().collect();
        kafka_tool(&self.broker.address, words[0], &words[1..], input)
    }

    pub fn end(self) {
        assert!(self.broker.terminate().success());
    }
}

#[test]
fn topics_and_configs_can_be_managed() {
    let bench = Bench::start();
    let created = bench.run(
        "topics --create --topic letters --partitions 2 --replication-factor 3 --config retention.ms=100000 \
         --config cleanup.policy=compact",
    );
    assert_eq!(created, "Created topic letters.\n");
    bench.run("topics --alter --topic letters --partitions 4");
    let altered = bench.run(
        "configs --alter --entity-type topics --entity-name letters --delete-config retention.ms \
         --add-config segment.bytes=2000000,cleanup.policy=[compact,delete]",
    );
    assert_eq!(altered, "Completed updating config for topic letters.\n");

    let described = bench.run("topics --describe --topic letters");
    let mut lines = described.lines();
    let topic = lines.next().unwrap();
    assert!(topic.contains("\tPartitionCount: 4\tReplicationFactor: 1\t"), "{topic}");
    assert!(
        topic.ends_with("Configs: cleanup.policy=compact,delete,segment.bytes=2000000"),
        "{topic}"
    );
    for index in 0..4 {
        let expected = format!("\tTopic: letters\tPartition: {index}\tLeader: 1\tReplicas: 1\tIsr: 1\t");
        assert!(lines.next().unwrap().starts_with(&expected), "{described}");
    }
    assert_eq!(lines.next(), None);

    let configs = bench.run("configs --describe --entity-type topics --entity-name letters --all");
    for expected in [
        "segment.bytes=2000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:segment.bytes=2000000, \
         DEFAULT_CONFIG:log.segment.bytes=1073741824}",
        "retention.ms=604800000 sensitive=false synonyms={}",
    ] {
        assert!(configs.contains(expected), "{configs}");
    }
    bench.run("configs --alter --entity-type brokers --entity-name 1 --add-config log.retention.ms=7000000");
    let configs = bench.run("configs --describe --entity-type brokers --entity-name 1");
    assert!(
        configs.contains("log.retention.ms=7000000 sensitive=false"),
        "{configs}"
    );

    bench.run("topics --delete --topic letters");
    assert_eq!(bench.run("topics --list").trim(), "");
    bench.end();
}

#[test]
fn settings_of_groups_can_be_managed() {
    let bench = Bench::start();
    let altered = bench.run(
        "configs --alter --entity-type groups --entity-name readers \
         --add-config consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=7000",
    );
    assert_eq!(altered, "Completed updating config for group readers.\n");
    let described = bench.run("configs --describe --entity-type groups");
    assert!(
        described.contains("Dynamic configs for group readers are:"),
        "{described}"
    );
    let session = "consumer.session.timeout.ms=50000 sensitive=false \
                   synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, \
                   DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}";
    assert!(described.contains(session), "{described}");

    bench.run("configs --alter --entity-type groups --entity-name readers --delete-config consumer.session.timeout.ms");
    let described = bench.run("configs --describe --entity-type groups --entity-name readers --all");
    for expected in [
        "consumer.session.timeout.ms=45000 sensitive=false \
         synonyms={DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}",
        "consumer.heartbeat.interval.ms=7000 sensitive=false \
         synonyms={DYNAMIC_GROUP_CONFIG:consumer.heartbeat.interval.ms=7000, \
         DEFAULT_CONFIG:group.consumer.heartbeat.interval.ms=5000}",
        "share.auto.offset.reset=latest sensitive=false synonyms={DEFAULT_CONFIG:share.auto.offset.reset=latest}",
    ] {
        assert!(described.contains(expected), "{described}");
    }
    bench.end();
}

#[test]
fn records_can_be_written_read_and_deleted() {
    let bench = Bench::start();
    bench.run_with(
        "console-producer --topic letters --compression-codec zstd --reader-property parse.key=true \
         --reader-property parse.headers=true --reader-property null.marker=NULL",
        "kind:1,kind:2\tfirst\tone\nNULL\tsecond\tNULL\n",
    );
    let sent = bench.run("verifiable-producer --topic letters --max-messages 500 --acks -1");
    assert_eq!(sent.matches("\"name\":\"producer_send_success\"").count(), 500);
    assert!(sent.contains("\"value\":\"499\",\"offset\":501,"), "{sent}");
    assert!(sent.contains("\"sent\":500,\"acked\":500,"), "{sent}");

    let read = bench.run(
        "console-consumer --topic letters --partition 0 --offset earliest --max-messages 502 \
         --formatter-property print.key=true --formatter-property print.headers=true \
         --formatter-property print.offset=true",
    );
    let mut expected = "Offset:0\tkind:1,kind:2\tfirst\tone\nOffset:1\tNO_HEADERS\tsecond\tnull\n".to_owned();
    for value in 0..500 {
        expected.push_str(&format!("Offset:{}\tNO_HEADERS\tnull\t{value}\n", value + 2));
    }
    assert_eq!(read, expected);

    let producers = bench.run("transactions describe-producers --topic letters --partition 0");
    let row: Vec<&str> = producers.lines().nth(1).unwrap().split_whitespace().collect();
    // The console producer was idempotent and ended at sequence 1; the other producer is not idempotent.
    assert_eq!((row[1], row[3], row[5]), ("0", "1", "None"), "{producers}");
    assert_eq!(producers.lines().count(), 2, "{producers}");

    let list = bench.dir.path().join("delete.json");
    let text = r#"{"version": 1, "partitions": [{"topic": "letters", "partition": 0, "offset": 100}]}"#;
    fs::write(&list, text).unwrap();
    let deleted = bench.run(&format!("delete-records --offset-json-file {}", list.display()));
    assert!(
        deleted.contains("partition: letters-0\tlow_watermark: 100"),
        "{deleted}"
    );
    assert_eq!(
        bench.run("get-offsets --topic letters --time earliest"),
        "letters:0:100\n"
    );
    assert_eq!(bench.run("get-offsets --topic letters"), "letters:0:502\n");
    bench.end();
}

#[test]
fn much_can_be_written_by_every_codec() {
    let bench = Bench::start();
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let perf = bench.run(&format!(
            "producer-perf --topic letters --num-records 4000 --record-size 500 --throughput -1 \
             --command-property compression.type={codec}"
        ));
        assert!(perf.contains("4000 records sent"), "{perf}");
    }
    assert_eq!(bench.run("get-offsets --topic letters"), "letters:0:20000\n");
    let read = bench.run("console-consumer --topic letters --partition 0 --from-beginning --max-messages 20000");
    assert_eq!(read.lines().count(), 20_000);
    assert!(read.lines().all(|line| line.len() == 500));

    let dirs = bench.run("log-dirs --describe --topic-list letters");
    let log = fs::metadata(bench.dir.path().join("letters-0/00000000000000000000.log")).unwrap();
    let expected = format!(
        "{{\"partition\":\"letters-0\",\"size\":{},\"offsetLag\":0,\"isFuture\":false}}",
        log.len()
    );
    assert!(dirs.contains(&expected), "{dirs}");
    assert!(
        dirs.contains(&format!("\"logDir\":\"{}\"", bench.dir.path().display())),
        "{dirs}"
    );
    bench.end();
}
