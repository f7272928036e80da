//! The file of `milena run`: checks, messages, and overrides.

use std::{fs, process::Command};

use crate::{
    application::{Application, head, is_committed, records, script, until},
    client::batch,
    command::{fails, milena},
    process::Process,
};

#[test]
fn check_finds_all_that_is_wrong_with_its_line_and_starts_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.toml");
    let text = r#"group = "readers"
[kafka]
bootstrap.servrs = "127.0.0.1:1"
[producer]
acks = "many"
[[handlers]]
topic = "letters"
command = ["nosuchprogram"]
comand = ["sh"]
retry = { topics = ["1minute"] }
[[handlers]]
topic = "answers"
http = "ftp://nowhere"
"#;
    fs::write(&file, text).unwrap();
    let name = file.to_string_lossy();
    let told = fails(&["run", "--check", &name]);
    for (line, message) in [
        (
            3,
            "bootstrap.servrs is not a key of the consumer; did you mean bootstrap.servers?",
        ),
        (5, "acks cannot be \"many\""),
        (8, "handlers[0].command: no program \"nosuchprogram\" in PATH"),
        (
            9,
            "handlers[0].comand is not a known key; did you mean command? Known keys: topic,",
        ),
        (
            10,
            "handlers[0].retry.topics[0]: \"1minute\" is not a duration such as \"1m\"",
        ),
        (13, "handlers[1].http: \"ftp://nowhere\" is not a URL"),
    ] {
        let expected = format!("{name}:{line}: {message}");
        assert!(told.contains(&expected), "{expected}\nis not in\n{told}");
        assert_eq!(told.matches(message).count(), 1, "{told}");
    }
}

#[test]
fn check_starts_no_program_and_needs_no_broker() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.toml");
    let started = dir.path().join("started");
    let text = format!(
        "group = \"readers\"\n[[handlers]]\ntopic = \"letters\"\ncommand = [\"touch\", \"{}\"]\n",
        started.display()
    );
    fs::write(&file, text).unwrap();
    let output = milena(&["run", "--check", &file.to_string_lossy()]);
    assert!(output.status.success(), "{output:?}");
    assert!(!started.exists());
}

#[test]
fn policies_that_contradict_themselves_are_found_without_a_broker() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("app.toml");
    for (handler, message) in [
        ("retry = { attempts = 0 }", "attempts is 0; it must be at least 1"),
        ("bulkhead = \"database\"", "add it under [bulkheads]"),
        (
            "delivery = \"exactly-once\"",
            "requires instance at the top of the file",
        ),
    ] {
        let text = format!("group = \"g\"\n[[handlers]]\ntopic = \"letters\"\ncommand = [\"cat\"]\n{handler}\n");
        fs::write(&file, text).unwrap();
        let told = fails(&["run", "--check", &file.to_string_lossy()]);
        assert!(told.contains(message) && told.contains("app.toml: "), "{told}");
        assert!(!told.contains("::"), "{told}");
    }
    fs::write(&file, "group = \"g\"\n").unwrap();
    let told = fails(&["run", "--check", &file.to_string_lossy()]);
    assert!(told.contains("add a [[handlers]] table"), "{told}");
}

#[test]
fn a_topic_that_is_missing_is_an_error_that_names_the_key_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    let handler = script(dir.path(), "cat > /dev/null");
    let told = Application::fails(dir.path(), &(head(&broker) + &handler), &[]);
    assert!(told.contains("set wait_for_topics = true under [app]"), "{told}");
    assert_eq!(told.matches("letters").count(), 1, "{told}");
}

#[test]
fn flags_and_the_environment_win_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["a"]));
    let handler = script(dir.path(), "while read -r line; do reply; done");
    let text = format!("group = \"${{GROUP}}\"\n[kafka]\nbootstrap.servers = \"127.0.0.1:1\"\n{handler}");
    let arguments = [
        "-b",
        &broker.address,
        "-X",
        "client.id=mine",
        "-X",
        "max.poll.records=1",
    ];
    let application = Application::start_with(dir.path(), &text, &arguments, &[("GROUP", "readers")]);
    is_committed(&broker, &application, 1);
    application.stop();
    let file = dir.path().join("app.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_milena"));
    command.args(["run", "--check", "-X", "nonsense=1"]).arg(&file);
    let output = command.env("GROUP", "readers").output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("nonsense (-X) is not a key of"), "{told}");
    assert!(!told.contains("(code)"), "{told}");
}

#[test]
fn a_replay_in_the_file_reads_its_stretch_and_ends() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.create_topic("answers", 1, &[]);
    client.produce("letters", 0, batch(&["a", "b", "c"]));
    let handler = script(
        dir.path(),
        r#"while read -r line; do reply ',"emit":[{"topic":"answers","value":"again"}]'; done"#,
    );
    let replay = "[replay]\nname = \"again\"\nfrom = { \"letters-0\" = 1 }\n";
    let text = format!("{}{replay}{handler}", head(&broker));
    let application = Application::start(dir.path(), &text, &[]);
    let status = application.wait();
    assert!(
        status.success(),
        "{}",
        fs::read_to_string(dir.path().join("stderr")).unwrap()
    );
    assert_eq!(records(&broker, "answers").len(), 2);
}

#[test]
fn topics_without_a_handler_do_what_the_file_says() {
    let dir = tempfile::tempdir().unwrap();
    let broker = Process::start(&dir.path().join("data"), &[]);
    let mut client = broker.client();
    for topic in ["letters", "letters-old"] {
        client.create_topic(topic, 1, &[]);
        client.produce(topic, 0, batch(&["a"]));
    }
    let handler = script(dir.path(), "while read -r line; do reply; done");
    let unknown = "[[unknown_topics]]\ntopic = \"letters-{kind}\"\naction = \"dead-letter\"\n";
    let text = format!("{}{unknown}{handler}", head(&broker));
    let application = Application::start(dir.path(), &text, &[]);
    let dead = || records(&broker, "letters-old.dlq").len() == 1;
    until("the dead letter", dead, || application.log());
    application.stop();
}
