//! Secrets on the command line.

use std::{
    fs,
    io::{Read as _, Write as _},
    process::{Command, Stdio},
};

use crate::{command::fails, process::command};

#[test]
fn a_secret_in_an_argument_is_refused_by_every_command() {
    let commands: [&[&str]; 8] = [
        &["topic", "list"],
        &["consume", "letters"],
        &["produce", "letters"],
        &["group", "list"],
        &["acl", "list"],
        &["user", "list"],
        &["quota", "list"],
        &["perf", "produce", "letters", "-n", "1"],
    ];
    for command in commands {
        let message = fails(&[command, &["-X", "sasl.password=hunter2"]].concat());
        assert!(
            message.starts_with("milena: -X sasl.password has a secret"),
            "{message}"
        );
        assert!(message.contains("--command-config FILE") && message.contains("'sasl.password=${env:NAME}'"));
        assert!(!message.contains("hunter2"), "{message}");
    }
    let dir = tempfile::tempdir().unwrap();
    let jaas = "listener.name.a.plain.sasl.jaas.config=org.x.PlainLoginModule required user_a=\"hunter2\";";
    let refused = command(dir.path(), &["-X", jaas]).output().unwrap();
    let message = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && message.contains("use --config FILE"),
        "{message}"
    );
    let app = dir.path().join("app.toml");
    fs::write(
        &app,
        "group = \"g\"\n[[handlers]]\ntopic = \"letters\"\ncommand = [\"cat\"]\n",
    )
    .unwrap();
    let message = fails(&[
        "run",
        app.to_str().unwrap(),
        "--check",
        "-X",
        "ssl.key.password=hunter2",
    ]);
    assert!(message.starts_with("milena: -X ssl.key.password"), "{message}");
}

#[test]
fn a_password_is_a_reference_or_comes_from_a_file_or_a_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let broker = crate::process::Process::start(dir.path(), &[]);
    let create = |arguments: &[&str]| fails(&[&["user", "create", "alice", "-b", &broker.address], arguments].concat());
    let message = create(&["--password", "hunter2"]);
    assert!(
        message.contains("takes a reference") && !message.contains("hunter2"),
        "{message}"
    );
    let message = create(&["--password", "${env:MILENA_TEST_NO_SUCH_VARIABLE}"]);
    assert!(message.contains("MILENA_TEST_NO_SUCH_VARIABLE"), "{message}");
    let message = create(&["--password-file", "/nosuch/file"]);
    assert!(
        message.contains("cannot read the password from /nosuch/file"),
        "{message}"
    );
    let file = dir.path().join("password");
    fs::write(&file, "\n").unwrap();
    let message = create(&["--password-file", file.to_str().unwrap()]);
    assert!(message.contains("the password of alice is empty"), "{message}");
}

/// A `milena` on a terminal of its own, by util-linux's `script`.
struct Terminal {
    child: std::process::Child,
    /// All output so far.
    shown: String,
}

impl Terminal {
    fn start(words: &str) -> Self {
        let line = format!("{} {words}", env!("CARGO_BIN_EXE_milena"));
        let child = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run script, of the package bsdutils: {error}"));
        Self {
            child,
            shown: String::new(),
        }
    }

    /// Waits for a prompt, then types.
    fn answer(&mut self, prompt: &str, keys: &str) {
        let out = self.child.stdout.as_mut().unwrap();
        let mut byte = [0];
        while !self.shown.ends_with(prompt) {
            assert_eq!(out.read(&mut byte).unwrap(), 1, "no {prompt:?} in {:?}", self.shown);
            self.shown.push(char::from(byte[0]));
        }
        self.child.stdin.as_mut().unwrap().write_all(keys.as_bytes()).unwrap();
    }

    fn end(mut self) -> (bool, String) {
        let mut rest = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
        drop(self.child.stdin.take());
        (self.child.wait().unwrap().success(), self.shown + &rest)
    }
}

#[test]
fn a_prompt_asks_twice_and_shows_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let broker = crate::process::Process::start(dir.path(), &[]);
    let create = format!("user create alice -b {}", broker.address);
    let mut terminal = Terminal::start(&create);
    terminal.answer("Password of alice: ", "hunter2\n");
    terminal.answer("The same again: ", "hunter2\n");
    let (succeeded, shown) = terminal.end();
    assert!(
        succeeded && shown.contains("set the password of alice (SCRAM-SHA-512)"),
        "{shown}"
    );
    assert!(!shown.contains("hunter2"), "{shown}");

    let mut terminal = Terminal::start(&format!("{create} --replace"));
    terminal.answer("Password of alice: ", "hunter2\n");
    terminal.answer("The same again: ", "hunter3\n");
    let (succeeded, shown) = terminal.end();
    assert!(!succeeded && shown.contains("the two passwords differ"), "{shown}");

    let mut terminal = Terminal::start(&format!("{create} --replace"));
    terminal.answer("Password of alice: ", "hunter2\u{3}");
    let (succeeded, shown) = terminal.end();
    assert!(!succeeded && shown.contains("milena: interrupted"), "{shown}");
}

#[test]
fn a_user_without_a_password_is_asked_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let broker = crate::process::Process::start(dir.path(), &[]);
    let words = "-X security.protocol=sasl_plaintext -X sasl.mechanism=PLAIN -X sasl.username=alice";
    let mut terminal = Terminal::start(&format!("topic list -b {} {words}", broker.address));
    terminal.answer("Password of alice: ", "hunter2\n");
    let (succeeded, shown) = terminal.end();
    // The broker has no such listener.
    assert!(!succeeded && !shown.contains("hunter2"), "{shown}");
}
