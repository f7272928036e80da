//! `milena run` as a separate process in its own process group, as a shell with job control starts it.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{client::batch, command::milena, process::Process};

/// The time limit of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// A shell function that replies `{"id":…}` with further members to the record in `$line`.
pub const REPLY: &str = r#"
reply() {
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\),"topic".*/\1/')
    echo "{\"id\":$id$1}"
}
"#;

pub struct Application {
    child: Child,
    dir: PathBuf,
}

impl Application {
    /// Starts the application declared by `text` and waits until it runs.
    pub fn start(dir: &Path, text: &str, arguments: &[&str]) -> Self {
        Self::start_with(dir, text, arguments, &[])
    }

    /// As [`Self::start`], with environment variables.
    pub fn start_with(dir: &Path, text: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut application = Self::spawn(dir, text, arguments, variables);
        let mut line = String::new();
        let stdout = application.child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "RUNNING\n", "{}", application.log());
        application
    }

    fn spawn(dir: &Path, text: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let file = dir.join("app.toml");
        fs::write(&file, text).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_milena"))
            .arg("run")
            .arg(&file)
            .args(arguments)
            .envs(variables.iter().copied())
            .current_dir(dir)
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(File::create(dir.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let dir = dir.to_owned();
        Self { child, dir }
    }

    /// Runs an application that must fail by itself, and returns its stderr.
    pub fn fails(dir: &Path, text: &str, arguments: &[&str]) -> String {
        let mut application = Self::spawn(dir, text, arguments, &[]);
        let status = application.child.wait().unwrap();
        let log = application.log();
        assert_eq!(status.code(), Some(1), "{log}");
        log
    }

    /// Its stderr so far.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("stderr")).unwrap()
    }

    pub fn logs(&self, text: &str) {
        until(
            &format!("a log with {text:?}"),
            || self.log().contains(text),
            || self.log(),
        );
    }

    /// Sends a signal to the process group, as a terminal does.
    pub fn signal_group(&self, signal: &str) {
        let group = format!("-{}", self.child.id());
        let sent = Command::new("kill").args(["-s", signal, "--", &group]).status();
        assert!(sent.unwrap().success());
    }

    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Sends SIGTERM, as a service manager does, and expects success.
    pub fn stop(self) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", "TERM", &pid]).status();
        assert!(sent.unwrap().success());
        let log = self.dir.join("stderr");
        let status = self.wait();
        assert!(status.success(), "{}", fs::read_to_string(log).unwrap());
    }
}

impl Drop for Application {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool, details: impl Fn() -> String) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "{what} did not happen:\n{}", details());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A broker in `dir` whose topic `letters` has these records in one partition.
pub fn broker_with(dir: &Path, values: &[&str]) -> Process {
    let broker = Process::start(&dir.join("data"), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(values));
    broker
}

/// The head of a file: group `readers` on this broker.
pub fn head(broker: &Process) -> String {
    format!(
        "group = \"readers\"\n[kafka]\n\"bootstrap.servers\" = \"{}\"\n",
        broker.address
    )
}

/// A handler of `letters` that is a shell script in `dir`, tried once.
pub fn script(dir: &Path, body: &str) -> String {
    let path = dir.join("handler.sh");
    fs::write(&path, format!("{REPLY}\n{body}")).unwrap();
    format!(
        "[[handlers]]\ntopic = \"letters\"\ncommand = [\"sh\", \"{}\"]\nretry = {{ attempts = 1 }}\n",
        path.display()
    )
}

/// The offset that the group has committed for `letters-0`.
pub fn committed(broker: &Process) -> Option<i64> {
    let output = milena(&["group", "describe", "-b", &broker.address, "readers", "-o", "json"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let described: Value = serde_json::from_str(&text).ok()?;
    find(&described, "current_offset")
}

fn find(value: &Value, key: &str) -> Option<i64> {
    match value {
        Value::Object(object) => object
            .get(key)
            .and_then(Value::as_i64)
            .or_else(|| object.values().find_map(|inner| find(inner, key))),
        Value::Array(values) => values.iter().find_map(|inner| find(inner, key)),
        _ => None,
    }
}

pub fn is_committed(broker: &Process, application: &Application, offset: i64) {
    let what = format!("the commit of offset {offset}");
    let details = || format!("{:?}\n{}", committed(broker), application.log());
    until(&what, || committed(broker) == Some(offset), details);
}

/// The dead letters of `letters`, as objects.
pub fn dead_letters(broker: &Process) -> Vec<Value> {
    records(broker, "letters.dlq")
}

/// All records of a topic, as objects; none if there is no such topic.
pub fn records(broker: &Process, topic: &str) -> Vec<Value> {
    let arguments = ["consume", "-b", &broker.address, "-t", topic];
    let output = milena(&[&arguments[..], &["--exit-at-end", "-f", "json"]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub fn header<'a>(record: &'a Value, name: &str) -> &'a str {
    let headers = record["headers"].as_array().unwrap();
    let found = headers.iter().find(|header| header["key"] == name);
    found.and_then(|header| header["value"].as_str()).unwrap_or_default()
}
