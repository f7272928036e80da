//! Handlers that are programs: one line of JSON per record in, one out.

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
    message::{OutcomeMessage, Request},
    process::{Exit, Process},
};
use crate::handler::{Cx, Done, Fault};

/// Time for which a program is watched after its start. An exit within this time is not caused by a record.
const WATCH: Duration = Duration::from_millis(500);
/// Bound of the watch time.
const WATCH_MAX: Duration = Duration::from_secs(30);
/// Wait before an unattempted record is handed out again.
const AGAIN: Duration = Duration::from_millis(100);
/// Default of [`ProgramHandler::start_timeout`].
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Time from closing stdin to SIGTERM, and from there to SIGKILL.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Reason why a program did not handle a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramHandlerError {
    #[error("the command is empty; set a program and its arguments")]
    Empty,
    #[error("{program} cannot be started: {problem}")]
    Start { program: String, problem: String },
    #[error("{program} exited before it replied ({status})")]
    Ended { program: String, status: String },
    #[error("{program} timed out after {limit} ({setting}); it was killed and will be restarted")]
    TimedOut {
        program: String,
        limit: String,
        setting: String,
    },
    #[error("encoding the record as JSON failed: {0}")]
    Unwritable(String),
}

impl ProgramHandlerError {
    /// Class of the failure for dead letters.
    fn class(&self) -> &'static str {
        match self {
            Self::Empty | Self::Start { .. } => "program.start",
            Self::Ended { .. } => "program.exited",
            Self::TimedOut { .. } => "program.timeout",
            Self::Unwritable(_) => "program.unwritable",
        }
    }
}

/// A program that handles records. It runs as long as the application, in a process group of its own.
///
/// After an exit it is started again for the next record. A record that was with it has failed, provided that the
/// program starts again without it; a program that does not start is never the failure of a record. If it does not
/// reply in time, its process group is killed.
#[derive(Debug)]
pub struct ProgramHandler {
    command: Vec<String>,
    timeout: Option<Duration>,
    start_timeout: Duration,
    /// Path of the handler in its file, for messages.
    place: String,
    /// Breaker that guards the program. Without one, a failed start is a failure of the record.
    breaker: Option<String>,
    next_id: AtomicU64,
    run: Mutex<Run>,
    /// Whether it has ever replied. Until then, a program that does not start ends the application.
    has_replied: AtomicBool,
    is_stopping: AtomicBool,
}

/// The running program, if there is one.
#[derive(Debug)]
struct Run {
    process: Option<Arc<Process>>,
    /// Watch time of the next start.
    watch: Duration,
}

/// The program did not start.
struct StartFailure {
    error: ProgramHandlerError,
    stderr: String,
}

impl ProgramHandler {
    /// A program with its arguments.
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

    /// Kills and replaces the program if it does not reply within this time. `place` names the handler in messages,
    /// such as `handlers[0]`.
    #[must_use]
    pub fn timeout(mut self, limit: Option<Duration>, place: impl Into<String>) -> Self {
        (self.timeout, self.place) = (limit, place.into());
        self
    }

    /// Timeout of the first reply after a start, if it is longer than the timeout: 30 s by default. A program may read
    /// its first record late, because it still loads.
    #[must_use]
    pub fn start_timeout(mut self, limit: Duration) -> Self {
        self.start_timeout = limit;
        self
    }

    /// Counts failed starts in this breaker; meanwhile the record waits.
    #[must_use]
    pub fn breaker(mut self, name: impl Into<String>) -> Self {
        self.breaker = Some(name.into());
        self
    }

    /// Starts the program unless it runs, and watches it for half a second. Otherwise the first record does that.
    pub async fn start(&self) -> Result<(), ProgramHandlerError> {
        self.process().await.map(drop).map_err(|failed| failed.error)
    }

    /// From now on, failures of the program use up no attempts.
    pub fn begin_stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
    }

    /// Stops the program: closes its stdin, after 5 s sends SIGTERM to its process group, after another 5 s SIGKILL.
    pub async fn stop(&self) {
        self.begin_stop();
        let process = self.run.lock().await.process.take();
        if let Some(process) = process {
            process.stop(STOP_GRACE).await;
        }
    }

    /// Sends a record to the program and waits for its reply.
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
            Some(Ok(reply)) => {
                self.has_replied.store(true, Ordering::Release);
                reply.outcome()
            }
            Some(Err(exit)) => self.exited(&process, exit).await,
            None => self.timed_out(&process, limit.unwrap_or_default()).await,
        }
    }

    /// Returns the timeout of the next reply, and the setting that it comes from.
    fn limit(&self, process: &Process) -> Option<(Duration, &'static str)> {
        let limit = self.timeout?;
        if process.has_replied() || limit >= self.start_timeout {
            return Some((limit, "timeout"));
        }
        Some((self.start_timeout, "start_timeout"))
    }

    /// Returns `None` at the timeout.
    async fn ask(
        &self,
        process: &Process,
        id: u64,
        line: String,
        limit: Option<(Duration, &str)>,
    ) -> Option<Result<OutcomeMessage, Exit>> {
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

    /// Returns the running program, or starts one and watches it.
    async fn process(&self) -> Result<Arc<Process>, StartFailure> {
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
                    "a program exited; restarting it"
                );
            }
            run.process = None;
        }
        let process = Process::start(&self.command).map_err(|error| StartFailure {
            error: self.start_error(error.to_string()),
            stderr: String::new(),
        })?;
        let process = Arc::new(process);
        if let Ok(exit) = tokio::time::timeout(run.watch, process.exit()).await {
            return Err(StartFailure {
                error: self.start_error(ended_at_once(&exit)),
                stderr: exit.stderr,
            });
        }
        run.watch = WATCH;
        run.process = Some(Arc::clone(&process));
        Ok(process)
    }

    fn not_started(&self, failed: StartFailure) -> Result<Done, Fault> {
        if self.is_stopping() {
            return Ok(Done::RetryAfter(AGAIN));
        }
        let StartFailure { error, stderr } = failed;
        let class = error.class();
        let fault = match &self.breaker {
            // It has never worked: the command is wrong, or a requirement is missing.
            _ if !self.has_replied.load(Ordering::Acquire) => Fault::fatal(error),
            Some(name) => Fault::dependency(name.clone())(error),
            None => Fault::retry(error),
        };
        Err(fault.with_class(class).with_details(stderr))
    }

    /// Handles an exit during a call. It is the record's failure only if the program starts again without it.
    async fn exited(&self, process: &Arc<Process>, exit: Exit) -> Result<Done, Fault> {
        if self.is_stopping() || exit.by_us || exit.by_operator {
            return Ok(Done::RetryAfter(AGAIN));
        }
        if !exit.had_replied {
            let mut run = self.run.lock().await;
            // Concurrent calls of the same process run this too.
            if run
                .process
                .as_ref()
                .is_some_and(|current| Arc::ptr_eq(current, process))
            {
                // A program that exits so soon after its start may do so without a record too.
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
    format!("it exited before it got a record ({}){colon}{last}", exit.status)
}
