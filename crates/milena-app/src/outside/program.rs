//! A program that gets a line for each record and answers with one.

use std::{
    collections::BTreeMap,
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, Command},
    sync::{mpsc, oneshot},
};

use super::message::{Answer, Request};
use crate::handler::{Cx, Done, Fault};

/// After a program has ended, it is started again so much later.
const RESTART: Duration = Duration::from_secs(1);

/// Why a program cannot handle a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramHandlerError {
    #[error("the command is empty: name a program, and then its arguments")]
    Empty,
    #[error("{program} cannot be started: {problem}")]
    Start { program: String, problem: String },
    #[error("{program} ended before it answered ({status})")]
    Ended { program: String, status: String },
    #[error("a record cannot be written as JSON: {0}")]
    Unwritable(String),
}

/// A handler in another language. The program runs as long as the application does; if it ends it is started again, and
/// records that it had are tried again as the policy says. Many records can be with it at once: it may answer in any order.
#[derive(Debug)]
pub struct ProgramHandler {
    command: Vec<String>,
    next_id: AtomicU64,
    /// The way to the program that runs; the first record starts it.
    lines: Mutex<Option<mpsc::UnboundedSender<(u64, String)>>>,
    waiting: Arc<Waiting>,
}

/// Who waits for the answers to which lines.
#[derive(Debug, Default)]
struct Waiting {
    answers: Mutex<BTreeMap<u64, oneshot::Sender<Result<Answer, ProgramHandlerError>>>>,
}

impl Waiting {
    fn answers(&self) -> MutexGuard<'_, BTreeMap<u64, oneshot::Sender<Result<Answer, ProgramHandlerError>>>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, id: u64, answer: Result<Answer, ProgramHandlerError>) {
        // Nobody waits any more for a call that took too long.
        if let Some(waiting) = self.answers().remove(&id) {
            let _ = waiting.send(answer);
        }
    }

    fn tell_all(&self, error: &ProgramHandlerError) {
        for (_, waiting) in std::mem::take(&mut *self.answers()) {
            let _ = waiting.send(Err(error.clone()));
        }
    }
}

impl ProgramHandler {
    /// A program and its arguments.
    pub fn new(command: &[String]) -> Result<Self, ProgramHandlerError> {
        if command.first().is_none_or(String::is_empty) {
            return Err(ProgramHandlerError::Empty);
        }
        Ok(Self {
            command: command.to_vec(),
            next_id: AtomicU64::new(1),
            lines: Mutex::default(),
            waiting: Arc::default(),
        })
    }

    /// Hands a record to the program and waits for its answer.
    pub async fn handle(self: Arc<Self>, cx: Cx) -> Result<Done, Fault> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let line = serde_json::to_string(&Request::new(id, &cx));
        let line = line.map_err(|error| Fault::poison(ProgramHandlerError::Unwritable(error.to_string())))?;
        let (answer, answered) = oneshot::channel();
        self.waiting.answers().insert(id, answer);
        let _gone = Gone {
            waiting: &self.waiting,
            id,
        };
        // The task ends only with this handler.
        let _ = self.lines().send((id, line));
        let ended = || ProgramHandlerError::Ended {
            program: self.command.join(" "),
            status: "its task is gone".to_owned(),
        };
        answered.await.unwrap_or_else(|_| Err(ended()))?.outcome()
    }

    fn lines(&self) -> mpsc::UnboundedSender<(u64, String)> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = lines.as_ref().filter(|lines| !lines.is_closed()) {
            return open.clone();
        }
        let (sender, receiver) = mpsc::unbounded_channel();
        tokio::spawn(run(self.command.clone(), receiver, Arc::clone(&self.waiting)));
        *lines = Some(sender.clone());
        sender
    }
}

/// Takes one that nobody waits for out of the list.
struct Gone<'a> {
    waiting: &'a Waiting,
    id: u64,
}

impl Drop for Gone<'_> {
    fn drop(&mut self) {
        self.waiting.answers().remove(&self.id);
    }
}

/// Keeps the program running as long as lines can come.
async fn run(command: Vec<String>, mut lines: mpsc::UnboundedReceiver<(u64, String)>, waiting: Arc<Waiting>) {
    let name = command.join(" ");
    loop {
        let Some(first) = lines.recv().await else { return };
        let error = match start(&command) {
            Ok(child) => match serve(child, first, &mut lines, &waiting).await {
                Some(status) => ProgramHandlerError::Ended {
                    program: name.clone(),
                    status,
                },
                None => return,
            },
            Err(error) => ProgramHandlerError::Start {
                program: name.clone(),
                problem: error.to_string(),
            },
        };
        tracing::error!(%error, "a handler's program has trouble");
        while lines.try_recv().is_ok() {}
        waiting.tell_all(&error);
        tokio::time::sleep(RESTART).await;
    }
}

fn start(command: &[String]) -> std::io::Result<Child> {
    let (program, arguments) = command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
}

/// Carries lines to and fro until the program ends, or no more can come (`None`).
async fn serve(
    mut child: Child,
    first: (u64, String),
    lines: &mut mpsc::UnboundedReceiver<(u64, String)>,
    waiting: &Waiting,
) -> Option<String> {
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Some("it has no input or output".to_owned());
    };
    let mut answers = BufReader::new(output).lines();
    let mut next = Some(first);
    loop {
        if let Some((id, line)) = next.take() {
            let written = input.write_all(format!("{line}\n").as_bytes()).await;
            if let Err(error) = written {
                tracing::debug!(%error, id, "a program takes no more lines");
                break;
            }
        }
        tokio::select! {
            line = lines.recv() => match line {
                Some(line) => next = Some(line),
                None => return None,
            },
            answer = answers.next_line() => match answer {
                Ok(Some(answer)) => match serde_json::from_str::<Answer>(&answer) {
                    Ok(answer) => waiting.tell(answer.id, Ok(answer)),
                    Err(error) => tracing::warn!(%error, answer, "a program wrote a line that is no answer"),
                },
                Ok(None) | Err(_) => break,
            },
        }
    }
    drop(input);
    let status = child.wait().await;
    Some(status.map_or_else(|error| error.to_string(), |status| status.to_string()))
}
