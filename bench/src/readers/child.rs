//! The process in which a reader reads, and what it cost.

use std::{
    io::Read,
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use wait4::Wait4;

use super::{Job, Programs, Reader};

/// What a reader did, by its own words, and what the system counted.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    pub records: f64,
    /// Of keys and values.
    pub bytes: f64,
    pub seconds: f64,
    pub polls: f64,
    /// User and system time of the whole process.
    pub cpu_seconds: f64,
    pub resident_bytes: f64,
    /// The number of each record and when it was there, in nanoseconds since 1970.
    pub times: Vec<(u64, u64)>,
}

/// A reader at work.
pub struct Started {
    reader: Reader,
    child: Child,
    output: ChildStdout,
}

pub fn start(reader: Reader, job: &Job, programs: &Programs) -> Result<Started> {
    let mut command = match reader {
        Reader::Franz => programs.franz()?,
        Reader::Java => programs.java()?,
        _ => {
            let mut command = Command::new(std::env::current_exe()?);
            command.args(["read", &format!("{reader:?}").to_lowercase()]);
            command
        }
    };
    let mut child = command
        .args(job.words())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start {}", reader.name()))?;
    let output = child.stdout.take().context("no output")?;
    Ok(Started { reader, child, output })
}

impl Started {
    pub fn wait(mut self) -> Result<Measured> {
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let ended = self.child.wait4()?;
        ensure!(
            ended.status.success(),
            "{} failed: {}",
            self.reader.name(),
            ended.status
        );
        let mut measured = parse(&text).with_context(|| format!("{} tells nonsense: {text}", self.reader.name()))?;
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
        polls: number()?,
        times: lines.map(time).collect::<Option<_>>()?,
        ..Measured::default()
    })
}
