//! A program that gets a line for each record and replies with one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::Mutex;

use super::{
    duration_text,
    message::{Answer, Request},
    process::{Exit, Process},
};
use crate::handler::{Cx, Done, Fault};

/// The time that a program is watched after its start before it gets a record. If it ends meanwhile, it is not a record
/// that it ended of.
const WATCH: Duration = Duration::from_millis(500);
/// The longest that a program is watched.
const WATCH_MAX: Duration = Duration::from_secs(30);
/// The pause before a record is handed out again that was not tried.
const AGAIN: Duration = Duration::from_millis(100);
/// The default of [`ProgramHandler::start_timeout`].
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);
/// The time from closing stdin to SIGTERM, and from there to SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Why a program did not handle a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramHandlerError {
    #[error("the command is empty: name a program, then its arguments")]
    Empty,
    #[error("{program} cannot be started: {problem}")]
    Start { program: String, problem: String },
    #[error("{program} ended before it replied ({status})")]
    Ended { program: String, status: String },
    #[error("{program} timed out after {limit} ({setting}); it was killed and is started anew")]
    TimedOut {
        program: String,
        limit: String,
        setting: String,
    },
    #[error("a record cannot be written as JSON: {0}")]
    Unwritable(String),
}

impl ProgramHandlerError {
    /// The kind of failure in the headers of a dead letter.
    fn class(&self) -> &'static str {
        match self {
            Self::Empty | Self::Start { .. } => "program.start",
            Self::Ended { .. } => "program.exited",
            Self::TimedOut { .. } => "program.timeout",
            Self::Unwritable(_) => "program.unwritable",
        }
    }
}

/// A handler in another language. The program runs as long as the application does, in a process group of its own.
///
/// If it ends, it is started again for the next record. A record that was with it has failed, as far as the program starts
/// again without it; a program that does not start is never the failure of a record. If it does not reply in time, its
/// process group is killed.
#[derive(Debug)]
pub struct ProgramHandler {
    command: Vec<String>,
    timeout: Option<Duration>,
    start_timeout: Duration,
    /// The place of the handler in its file, for messages.
    place: String,
    /// The breaker that guards the program. Without one, a start that fails is a failure of the record.
    breaker: Option<String>,
    next_id: AtomicU64,
    run: Mutex<Run>,
    /// Whether it has ever replied. As long as it has not, a program that does not start ends the application.
    has_replied: AtomicBool,
    is_stopping: AtomicBool,
}

/// The program that runs, if one does.
#[derive(Debug)]
struct Run {
    process: Option<Arc<Process>>,
    /// The time that the next one is watched.
    watch: Duration,
}

/// A program that did not start.
struct NotStarted {
    error: ProgramHandlerError,
    stderr: String,
}

impl ProgramHandler {
    /// A program and its arguments.
    pub fn new(command: &[String]) -> Result<Self, ProgramHandlerError> {
        if command.first().is_none_or(String::is_empty) {
            return Err(ProgramHandlerError::Empty);
        }
        Ok(Self {
            command: command.to_vec(),
            timeout: None,
            start_timeout: START_TIMEOUT,
            place: "handler".to_owned(),
            breaker: None,
            next_id: AtomicU64::new(1),
            run: Mutex::new(Run {
                process: None,
                watch: WATCH,
            }),
            has_replied: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
        })
    }

    /// Kills and replaces the program if it does not reply to a record within this time. `place` names the handler in
    /// messages, as `handlers[0]` does.
    #[must_use]
    pub fn timeout(mut self, limit: Option<Duration>, place: impl Into<String>) -> Self {
        (self.timeout, self.place) = (limit, place.into());
        self
    }

    /// The time that the first reply after a start may take, if it is longer than the timeout: 30 s. A program may read its
    /// first record late, because it still loads.
    #[must_use]
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = limit;
        self
    }

    /// A program that does not start counts against this breaker, and the record waits.
    #[must_use]
    pub fn breaker(mut self, name: impl Into<String>) -> Self {
        self.breaker = Some(name.into());
        self
    }

    /// Starts the program, unless it runs, and watches it for half a second. The first record would do so otherwise.
    pub async fn start(&self) -> Result<(), ProgramHandlerError> {
        self.process().await.map(drop).map_err(|failed| failed.error)
    }

    /// From now on nothing that happens to the program is an attempt of a record.
    pub fn begin_stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Ends the program: closes its stdin, after 5 s sends SIGTERM to its process group, after 5 s more SIGKILL.
    pub async fn stop(&self) {
        self.begin_stop();
        let process = self.run.lock().await.process.take();
        if let Some(process) = process {
            process.stop(STOP_GRACE).await;
        }
    }

    /// Hands a record to the program and waits for its reply.
    pub async fn handle(self: Arc<Self>, cx: Cx) -> Result<Done, Fault> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = serde_json::to_string(&Request::new(id, &cx));
        let line = line.map_err(|error| {
            let error = ProgramHandlerError::Unwritable(error.to_string());
            let class = error.class();
            Fault::poison(error).with_class(class)
        })?;
        let process = match self.process().await {
            Ok(process) => process,
            Err(failed) => return self.not_started(failed),
        };
        let limit = self.limit(&process);
        match self.ask(&process, id, line, limit).await {
            Some(Ok(answer)) => {
                self.has_replied.store(true, Ordering::Release);
                answer.outcome()
            }
            Some(Err(exit)) => self.exited(&process, exit).await,
            None => self.timed_out(&process, limit.unwrap_or_default()).await,
        }
    }

    /// The longest that the next reply may take, and the setting that says so.
    fn limit(&self, process: &Process) -> Option<(Duration, &'static str)> {
        let limit = self.timeout?;
        if process.has_replied() || limit >= self.start_timeout {
            return Some((limit, "timeout"));
        }
        Some((self.start_timeout, "start_timeout"))
    }

    /// `None` if there was no reply in time.
    async fn ask(
        &self,
        process: &Process,
        id: u64,
        line: String,
        limit: Option<(Duration, &str)>,
    ) -> Option<Result<Answer, Exit>> {
        let mut call = match process.send(id, line) {
            Ok(call) => call,
            Err(exit) => return Some(Err(exit)),
        };
        let reply = match limit {
            Some((limit, _)) => tokio::time::timeout(limit, call.reply()).await.ok()?,
            None => call.reply().await,
        };
        match reply {
            Some(reply) => Some(reply),
            None => Some(Err(process.exit().await)),
        }
    }

    /// The program that runs. If none does, one is started, and watched before it gets a record.
    async fn process(&self) -> Result<Arc<Process>, NotStarted> {
        let mut run = self.run.lock().await;
        if let Some(process) = &run.process {
            if process.is_usable() {
                return Ok(Arc::clone(process));
            }
            let exit = process.exit().await;
            if !exit.by_us {
                let (program, status) = (self.name(), &exit.status);
                tracing::warn!(
                    event = "program_exited",
                    program,
                    status,
                    "a program ended; starting it again"
                );
            }
            run.process = None;
        }
        let process = Process::start(&self.command).map_err(|error| NotStarted {
            error: self.start_error(error.to_string()),
            stderr: String::new(),
        })?;
        let process = Arc::new(process);
        if let Ok(exit) = tokio::time::timeout(run.watch, process.exit()).await {
            return Err(NotStarted {
                error: self.start_error(ended_at_once(&exit)),
                stderr: exit.stderr,
            });
        }
        run.watch = WATCH;
        run.process = Some(Arc::clone(&process));
        Ok(process)
    }

    fn not_started(&self, failed: NotStarted) -> Result<Done, Fault> {
        if self.is_stopping() {
            return Ok(Done::RetryAfter(AGAIN));
        }
        let NotStarted { error, stderr } = failed;
        let class = error.class();
        let fault = match &self.breaker {
            // It has never worked: its command is wrong, or what it needs is not there.
            _ if !self.has_replied.load(Ordering::Acquire) => Fault::fatal(error),
            Some(name) => Fault::dependency(name.clone())(error),
            None => Fault::retry(error),
        };
        Err(fault.with_class(class).with_details(stderr))
    }

    /// The program ended while it had a record. That is the record's failure only if the program starts without it.
    async fn exited(&self, process: &Arc<Process>, exit: Exit) -> Result<Done, Fault> {
        if self.is_stopping() || exit.by_us || exit.by_operator {
            return Ok(Done::RetryAfter(AGAIN));
        }
        if !exit.had_replied {
            let mut run = self.run.lock().await;
            // Others that were with it have done the same.
            if run
                .process
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, process))
            {
                // A program that ends by itself so soon after its start does so without a record too.
                run.watch = (exit.lived * 2).clamp(WATCH, WATCH_MAX);
            }
        }
        if let Err(failed) = self.process().await {
            return self.not_started(failed);
        }
        let error = ProgramHandlerError::Ended {
            program: self.name(),
            status: exit.status,
        };
        let class = error.class();
        Err(Fault::retry(error).with_class(class).with_details(exit.stderr))
    }

    async fn timed_out(&self, process: &Process, (limit, setting): (Duration, &str)) -> Result<Done, Fault> {
        process.kill();
        let exit = process.exit().await;
        if self.is_stopping() {
            return Ok(Done::RetryAfter(AGAIN));
        }
        let error = ProgramHandlerError::TimedOut {
            program: self.name(),
            limit: duration_text(limit),
            setting: format!("{}.{setting}", self.place),
        };
        tracing::warn!(event = "program_timed_out", "{error}");
        let class = error.class();
        Err(Fault::retry(error).with_class(class).with_details(exit.stderr))
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    fn name(&self) -> String {
        self.command.join(" ")
    }

    fn start_error(&self, problem: String) -> ProgramHandlerError {
        ProgramHandlerError::Start {
            program: self.name(),
            problem,
        }
    }
}

fn ended_at_once(exit: &Exit) -> String {
    let last = exit.stderr.lines().last().unwrap_or_default();
    let colon = if last.is_empty() { "" } else { ": " };
    format!("it ended before it got a record ({}){colon}{last}", exit.status)
}
