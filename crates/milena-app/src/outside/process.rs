//! One process of a program: its pipes, its exit, and the end of its stderr.
//!
//! A program runs in a process group of its own. A signal to the group of its parent, as Ctrl-C in a terminal and some
//! service managers send, does not reach it, and its children end with it.

use std::{
    collections::{BTreeMap, VecDeque},
    io::Write as _,
    process::{ExitStatus, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, ChildStdout, Command},
    sync::{mpsc, oneshot, watch},
    task::JoinHandle,
};

use super::message::OutcomeMessage;

/// Time for which pipes may stay open after the exit: a grandchild outside of the group may hold them.
const PIPES_MAX: Duration = Duration::from_secs(1);
/// Bounds of the kept stderr; both fit into a header of a dead letter.
const STDERR_LINES: usize = 50;
const STDERR_BYTES: usize = 6 << 10;

/// Exit of a program.
#[derive(Debug, Clone)]
pub(super) struct Exit {
    /// In the system's words, such as `exit status: 1`.
    pub(super) status: String,
    /// Whether an operator or a service manager ended it, rather than its own code.
    pub(super) by_operator: bool,
    /// Whether the runtime killed it, because it did not reply.
    pub(super) by_us: bool,
    /// Whether it had replied to a record.
    pub(super) had_replied: bool,
    pub(super) lived: Duration,
    /// Last lines of its stderr.
    pub(super) stderr: String,
}

/// A running program.
#[derive(Debug)]
pub(super) struct Process {
    group: Group,
    /// Lines for its stdin; `None` once that is closed.
    lines: Mutex<Option<mpsc::UnboundedSender<String>>>,
    replies: Arc<Replies>,
    ended: watch::Receiver<Option<Exit>>,
    is_killed: Arc<AtomicBool>,
}

/// Calls that wait for a reply, by id.
#[derive(Debug, Default)]
struct Replies {
    state: Mutex<ReplyState>,
    any: AtomicBool,
}

#[derive(Debug, Default)]
struct ReplyState {
    waiting: BTreeMap<u64, oneshot::Sender<Result<OutcomeMessage, Exit>>>,
    exit: Option<Exit>,
}

/// A pending call. Dropping it cancels the wait.
pub(super) struct Call<'a> {
    replies: &'a Replies,
    id: u64,
    reply: oneshot::Receiver<Result<OutcomeMessage, Exit>>,
}

impl Process {
    pub(super) fn start(command: &[String]) -> std::io::Result<Self> {
        let (program, arguments) = command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
        let mut builder = Command::new(program);
        builder
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        #[cfg(unix)]
        builder.process_group(0);
        let mut child = builder.spawn()?;
        let (Some(input), Some(output), Some(errors)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        };
        let name: Arc<str> = command.join(" ").into();
        let replies = Arc::<Replies>::default();
        let tail = Arc::<Tail>::default();
        let (lines, received) = mpsc::unbounded_channel();
        let (sender, ended) = watch::channel(None);
        let (group, is_killed) = (Group::of(&child), Arc::<AtomicBool>::default());
        tokio::spawn(write(input, received));
        let monitor = Monitor {
            began: Instant::now(),
            group,
            reading: tokio::spawn(read(output, name, Arc::clone(&replies))),
            errors: tokio::spawn(keep(errors, Arc::clone(&tail))),
            replies: Arc::clone(&replies),
            is_killed: Arc::clone(&is_killed),
            tail,
            ended: sender,
        };
        tokio::spawn(monitor.run(child));
        Ok(Self {
            group,
            lines: Mutex::new(Some(lines)),
            replies,
            ended,
            is_killed,
        })
    }

    /// Sends a line. The reply has the same id.
    pub(super) fn send(&self, id: u64, line: String) -> Result<Call<'_>, Exit> {
        let (sender, reply) = oneshot::channel();
        {
            let mut state = self.replies.state();
            if let Some(exit) = &state.exit {
                return Err(exit.clone());
            }
            state.waiting.insert(id, sender);
        }
        if let Some(lines) = &*self.lines() {
            // If stdin is closed the program has ended, and the call receives its exit.
            let _ = lines.send(line);
        }
        Ok(Call {
            replies: &self.replies,
            id,
            reply,
        })
    }

    /// Returns whether it takes records: it runs and was not killed.
    pub(super) fn is_usable(&self) -> bool {
        self.ended.borrow().is_none() && !self.is_killed.load(Ordering::Acquire) && self.lines().is_some()
    }

    /// Returns whether it has replied to a record.
    pub(super) fn has_replied(&self) -> bool {
        self.replies.any.load(Ordering::Acquire)
    }

    /// Waits for the exit.
    pub(super) async fn exit(&self) -> Exit {
        let mut ended = self.ended.clone();
        let exit = match ended.wait_for(Option::is_some).await {
            Ok(exit) => exit.clone(),
            Err(_) => None,
        };
        exit.unwrap_or_else(|| Exit {
            status: "the tokio runtime has ended".to_owned(),
            by_operator: true,
            by_us: true,
            had_replied: false,
            lived: Duration::ZERO,
            stderr: String::new(),
        })
    }

    /// Kills the process group.
    pub(super) fn kill(&self) {
        self.is_killed.store(true, Ordering::Release);
        if self.ended.borrow().is_none() {
            self.group.signal(Signal::Kill);
        }
    }

    /// Stops it in stages: closes stdin, then sends SIGTERM to the group, then SIGKILL.
    pub(super) async fn stop(&self, grace: Duration) {
        self.lines().take();
        for signal in [Signal::Terminate, Signal::Kill] {
            if tokio::time::timeout(grace, self.exit()).await.is_ok() {
                return;
            }
            self.is_killed.store(true, Ordering::Release);
            self.group.signal(signal);
        }
        self.exit().await;
    }

    fn lines(&self) -> MutexGuard<'_, Option<mpsc::UnboundedSender<String>>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Call<'_> {
    pub(super) async fn reply(&mut self) -> Option<Result<OutcomeMessage, Exit>> {
        (&mut self.reply).await.ok()
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.replies.state().waiting.remove(&self.id);
    }
}

impl Replies {
    fn state(&self) -> MutexGuard<'_, ReplyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self, reply: OutcomeMessage) {
        self.any.store(true, Ordering::Release);
        let (id, waiting) = (reply.id, self.state().waiting.remove(&reply.id));
        match waiting {
            // The call may have been cancelled meanwhile.
            Some(waiting) => drop(waiting.send(Ok(reply))),
            None => tracing::debug!(
                event = "reply_ignored",
                id,
                "no record waits for the reply with id {id}"
            ),
        }
    }

    fn end(&self, exit: &Exit) {
        let mut state = self.state();
        state.exit = Some(exit.clone());
        for (_, waiting) in std::mem::take(&mut state.waiting) {
            let _ = waiting.send(Err(exit.clone()));
        }
    }
}

/// Waits for the exit and passes it on to all calls.
struct Monitor {
    began: Instant,
    group: Group,
    reading: JoinHandle<()>,
    errors: JoinHandle<()>,
    replies: Arc<Replies>,
    is_killed: Arc<AtomicBool>,
    tail: Arc<Tail>,
    ended: watch::Sender<Option<Exit>>,
}

impl Monitor {
    async fn run(mut self, mut child: Child) {
        let status = tokio::select! {
            status = child.wait() => status,
            // Without stdout it cannot reply any more.
            _ = &mut self.reading => match tokio::time::timeout(PIPES_MAX, child.wait()).await {
                Ok(status) => status,
                Err(_) => {
                    self.group.signal(Signal::Kill);
                    child.wait().await
                }
            },
        };
        // Its children would continue with dead pipes.
        self.group.signal(Signal::Kill);
        // Replies written before the exit count.
        if !self.reading.is_finished() {
            let _ = tokio::time::timeout(PIPES_MAX, &mut self.reading).await;
        }
        let _ = tokio::time::timeout(PIPES_MAX, &mut self.errors).await;
        self.reading.abort();
        self.errors.abort();
        let exit = Exit {
            by_operator: status.as_ref().is_ok_and(|status| is_by_operator(*status)),
            status: status.map_or_else(|error| error.to_string(), |status| status.to_string()),
            by_us: self.is_killed.load(Ordering::Acquire),
            had_replied: self.replies.any.load(Ordering::Acquire),
            lived: self.began.elapsed(),
            stderr: self.tail.text(),
        };
        self.replies.end(&exit);
        self.ended.send_replace(Some(exit));
    }
}

/// SIGHUP, SIGINT and SIGTERM, also in the form in which shells report them for a child.
fn is_by_operator(status: ExitStatus) -> bool {
    const SIGNALS: [i32; 3] = [1, 2, 15];
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return SIGNALS.contains(&signal);
    }
    status.code().is_some_and(|code| SIGNALS.contains(&(code - 128)))
}

async fn write(mut input: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if let Err(error) = input.write_all(line.as_bytes()).await {
            tracing::debug!(event = "stdin_closed", %error, "writing to a program's stdin failed: {error}");
            return;
        }
    }
}

async fn read(output: ChildStdout, program: Arc<str>, replies: Arc<Replies>) {
    let mut output = BufReader::new(output);
    let mut line = vec![];
    while let Ok(1..) = output.read_until(b'\n', &mut line).await {
        match serde_json::from_slice::<OutcomeMessage>(&line) {
            Ok(reply) => replies.arrived(reply),
            Err(error) => {
                let text = String::from_utf8_lossy(line.trim_ascii_end());
                tracing::warn!(
                    event = "reply_invalid",
                    program = &*program,
                    %error,
                    line = &*text,
                    "a line on stdout is not a reply; print logs to stderr"
                );
            }
        }
        line.clear();
    }
}

/// Forwards stderr and keeps its end.
async fn keep(errors: impl AsyncRead + Unpin, tail: Arc<Tail>) {
    let mut errors = BufReader::new(errors);
    let mut line = vec![];
    while let Ok(1..) = errors.read_until(b'\n', &mut line).await {
        // The parent's stderr may be closed; there is no place to report that.
        let _ = std::io::stderr().lock().write_all(&line);
        tail.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
}

/// The last lines of stderr.
#[derive(Debug, Default)]
struct Tail {
    lines: Mutex<VecDeque<String>>,
}

impl Tail {
    fn push(&self, line: String) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(line);
        if lines.len() > STDERR_LINES {
            lines.pop_front();
        }
    }

    fn text(&self) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let text = lines.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        let begin = text.len().saturating_sub(STDERR_BYTES);
        let begin = (begin..=text.len()).find(|begin| text.is_char_boundary(*begin));
        begin.and_then(|begin| text.get(begin..)).unwrap_or_default().to_owned()
    }
}

#[derive(Debug, Clone, Copy)]
enum Signal {
    Terminate,
    Kill,
}

/// A process group, identified by its first process.
#[derive(Debug, Clone, Copy)]
struct Group(Option<u32>);

impl Group {
    fn of(child: &Child) -> Self {
        Self(child.id())
    }

    #[cfg(unix)]
    fn signal(self, signal: Signal) {
        use rustix::process::{Pid, Signal as Number, kill_process_group};
        let number = match signal {
            Signal::Terminate => Number::TERM,
            Signal::Kill => Number::KILL,
        };
        let group = self
            .0
            .and_then(|group| i32::try_from(group).ok())
            .and_then(Pid::from_raw);
        if let Some(group) = group {
            // A group that has ended needs no signal.
            let _ = kill_process_group(group, number);
        }
    }

    /// Without process groups the child itself is killed when its handle is dropped.
    #[cfg(not(unix))]
    fn signal(self, _signal: Signal) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_stderr_is_kept_and_fits_into_a_header() {
        let tail = Tail::default();
        for number in 0..100 {
            tail.push(format!("line {number} {}", "é".repeat(100)));
        }
        let text = tail.text();
        assert!(text.len() <= STDERR_BYTES, "{}", text.len());
        assert!(text.lines().last().unwrap().starts_with("line 99 "), "{text}");
    }
}
