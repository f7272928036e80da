//! The process in which a client runs, and its costs.

use std::{
    io::Read,
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use wait4::Wait4;

/// Results that a client reports, and costs that the system counted.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub records: f64,
    /// Keys and values.
    pub bytes: f64,
    pub seconds: f64,
    /// Reported by readers only.
    pub polls: f64,
    /// User and system time of the whole process.
    pub cpu_seconds: f64,
    pub resident_bytes: f64,
    /// The number of each record and, in nanoseconds, when it was read (since 1970) or how long it took to write it.
    pub times: Vec<(u64, u64)>,
}

/// A client at work.
pub struct Started {
    name: &'static str,
    child: Child,
    output: ChildStdout,
}

impl Started {
    pub fn spawn(name: &'static str, mut command: Command) -> Result<Self> {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let output = child.stdout.take().context("no output")?;
        Ok(Self { name, child, output })
    }

    pub fn wait(mut self) -> Result<Measured> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let ended = self.child.wait4()?;
        ensure!(ended.status.success(), "{} failed: {}", self.name, ended.status);
        let mut measured = parse(&text).with_context(|| format!("{} tells nonsense: {text}", self.name))?;
        measured.cpu_seconds = (ended.rusage.utime + ended.rusage.stime).as_secs_f64();
        measured.resident_bytes = ended.rusage.maxrss as f64;
        Ok(measured)
    }
}

fn parse(text: &str) -> Option<Measured> {
    let mut lines = text.lines();
    let mut numbers = lines.next()?.split(' ').map(|number| number.parse().ok());
    let mut number = || numbers.next().flatten();
    let time = |line: &str| {
        let (number, nanos) = line.split_once(' ')?;
        Some((number.parse().ok()?, nanos.parse().ok()?))
    };
    Some(Measured {
        records: number()?,
        bytes: number()?,
        seconds: number()?,
        polls: number().unwrap_or(0.0),
        times: lines.map(time).collect::<Option<_>>()?,
        ..Measured::default()
    })
}
