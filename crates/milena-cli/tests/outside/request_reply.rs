//! Request-reply with Spring: its template asks our service, and its listener answers our requester. On our broker and
//! on Apache Kafka.

use std::{
    fs,
    io::Write,
    path::Path,
    process::{Command, Output, Stdio},
};

use crate::{
    process::Process,
    program::Program,
    programs::{Kafka, kafka_tool},
};

/// Answers `share 7` with `our quote for share 7`.
const SERVICE: &str = r#"
while read -r line; do
    id=$(printf %s "$line" | sed 's/^{"id":\([0-9]*\),.*/\1/')
    share=$(printf %s "$line" | sed 's/.*"value":"\([^"]*\)".*/\1/')
    echo "{\"id\":$id,\"reply\":{\"value\":\"our quote for $share\"}}"
done
"#;

const REQUESTS: usize = 40;

fn create(address: &str, topic: &str, partitions: &str) {
    let arguments = ["--create", "--topic", topic, "--partitions", partitions];
    kafka_tool(address, "topics", &arguments, "");
}

/// `milena run` with a program that answers requests of `quotes`.
fn service(address: &str, dir: &Path) -> Program {
    fs::write(dir.join("quote.sh"), SERVICE).unwrap();
    let file = format!(
        "group = \"quotes\"\n[kafka]\n\"bootstrap.servers\" = \"{address}\"\n\
         [[handlers]]\ntopic = \"quotes\"\ncommand = [\"sh\", \"quote.sh\"]\n\
         replies = {{ topics = [\"springReplies\"] }}\n"
    );
    fs::write(dir.join("app.toml"), file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    Program::spawn(command.args(["run", "app.toml"]).current_dir(dir))
}

/// Sends requests with our requester.
fn ask(address: &str, topic: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command.args(["produce", "-b", address, topic, "--request", "--timeout", "120s"]);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn talks_with_spring(address: &str, dir: &Path) {
    create(address, "quotes", "2");
    create(address, "springQuotes", "2");
    create(address, "springReplies", "3");

    let ours = service(address, dir);
    let count = REQUESTS.to_string();
    for partition in [None, Some("2")] {
        let mut arguments = vec!["ask", address, "quotes", "springReplies", &count];
        arguments.extend(partition);
        let said = Program::java("spring", "RequestReply.java", &arguments).succeed();
        let replies = said.lines().filter_map(|line| line.strip_prefix("reply: "));
        let expected = (0..REQUESTS).map(|number| format!("our quote for share {number}"));
        assert_eq!(replies.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{said}");
    }
    ours.kill();

    let mut spring = Program::java("spring", "RequestReply.java", &["serve", address, "springQuotes"]);
    spring.wait_for("serving");
    let requests: String = (0..REQUESTS).map(|number| format!("share {number}\n")).collect();
    let output = ask(address, "springQuotes", &requests);
    assert!(output.status.success(), "{output:?}");
    let expected: String = (0..REQUESTS)
        .map(|number| format!("Spring quotes share {number}\n"))
        .collect();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
    spring.kill();
}

#[test]
fn spring_and_we_answer_each_other_on_our_broker() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    talks_with_spring(&broker.address.clone(), dir.path());
    assert!(broker.terminate().success());
}

#[test]
fn spring_and_we_answer_each_other_on_kafka() {
    let dir = tempfile::tempdir().unwrap();
    let kafka = Kafka::start(19470);
    talks_with_spring(&kafka.address(), dir.path());
}
