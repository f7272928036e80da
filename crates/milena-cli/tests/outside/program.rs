//! A program that runs beside the test; the test reads its output and writes to its input.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

use crate::programs::xtask;

/// The time limit for an expected line.
const PATIENCE: Duration = Duration::from_secs(180);

pub struct Program {
    child: Child,
    lines: Receiver<String>,
    /// All output so far, for the report of a failed test.
    said: String,
}

impl Program {
    /// Runs one of Kafka's tools by its name, or one of our programs in `java/`.
    pub fn java(jars: &str, name: &str, arguments: &[&str]) -> Self {
        let mut command = xtask();
        command.args(["kafka", "tool", "--jars", jars]);
        if name.ends_with(".java") {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/outside/java");
            command.arg(folder.join(name));
        } else {
            command.arg(name);
        }
        Self::spawn(command.args(arguments))
    }

    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {command:?}: {error}; CONTRIBUTING.md says what is needed"));
        let (sender, lines) = channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let to_out = sender.clone();
        thread::spawn(move || forward(BufReader::new(out), |line| to_out.send(line).is_ok()));
        thread::spawn(move || forward(BufReader::new(err), |line| sender.send(line).is_ok()));
        Self {
            child,
            lines,
            said: String::new(),
        }
    }

    /// Waits for a line that contains this text.
    pub fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.said.push_str(&line);
                    self.said.push('\n');
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(error) => panic!("waited for {text:?}: {error}\n{}", self.said),
            }
        }
    }

    /// Expected lines must come after this point.
    pub fn forget_what_it_said(&mut self) {
        self.said.extend(self.lines.try_iter().map(|line| line + "\n"));
    }

    pub fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends SIGKILL. Dropping does the same, so that no test leaves a process behind.
    pub fn kill(self) {}

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(status.success(), "{}", self.said);
    }

    /// Waits for the exit. Returns the exit code and all output.
    pub fn end(&mut self) -> (Option<i32>, String) {
        while let Ok(line) = self.lines.recv_timeout(PATIENCE) {
            self.said.push_str(&line);
            self.said.push('\n');
        }
        let status = self.child.wait().unwrap();
        (status.code(), std::mem::take(&mut self.said))
    }

    /// Waits for a successful exit. Returns all output.
    pub fn succeed(&mut self) -> String {
        let (code, said) = self.end();
        assert_eq!(code, Some(0), "{said}");
        said
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn forward(lines: impl BufRead, mut send: impl FnMut(String) -> bool) {
    for line in lines.lines() {
        if !line.is_ok_and(&mut send) {
            return;
        }
    }
}
