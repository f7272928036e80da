//! Log lines for operators: failures, retries and dead letters, at most one line per second and cause.

use std::{
    borrow::Cow,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use milena_client::consumer::TopicPartition;
use tokio::sync::Notify;

use crate::throttle::{LogLine, Throttle};

const INTERVAL: Duration = Duration::from_secs(1);

/// The key by which lines are counted as similar.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cause {
    /// The stable name of what happened, for alerts.
    pub(super) event: &'static str,
    /// The index of the handler.
    pub(super) handler: usize,
    /// The type of the error.
    pub(super) class: Cow<'static, str>,
}

/// A line about a record.
#[derive(Debug, Clone)]
pub(super) struct Notice {
    pub(super) event: &'static str,
    /// The name or pattern of the handler's topics.
    pub(super) handler: String,
    pub(super) partition: TopicPartition,
    pub(super) offset: i64,
    /// The topic that the record goes to.
    pub(super) to: Option<String>,
    pub(super) attempts: Option<u32>,
    pub(super) error: String,
}

impl fmt::Display for Notice {
    /// `orders-0@17 → orders.dlq after 2 attempts: no money`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.partition, self.offset)?;
        match &self.to {
            Some(to) => write!(f, " → {to}")?,
            None => write!(f, ": the handler of {} failed", self.handler)?,
        }
        match self.attempts {
            Some(1) => f.write_str(" after 1 attempt")?,
            Some(attempts) => write!(f, " after {attempts} attempts")?,
            None => {}
        }
        write!(f, ": {}", self.error)
    }
}

/// Writes lines and suppresses similar ones. It uses the real time, whatever clock the application has.
#[derive(Debug)]
pub(super) struct Notices {
    began: Instant,
    throttle: Mutex<Throttle<Cause, Notice>>,
    /// Notified when a line is suppressed.
    suppressed: Notify,
}

impl Notices {
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            throttle: Mutex::new(Throttle::new(millis(INTERVAL))),
            suppressed: Notify::new(),
        }
    }

    pub(super) fn report(&self, cause: Cause, notice: impl FnOnce() -> Notice) {
        let told = self.throttle().note(self.now_ms(), cause, notice);
        match told {
            Some(told) => write(&told),
            None => self.suppressed.notify_one(),
        }
    }

    /// Writes suppressed lines when their interval is over. The task ends when it is aborted.
    pub(super) async fn run(&self) {
        loop {
            let next_ms = self.throttle().next_ms();
            let Some(next_ms) = next_ms else {
                self.suppressed.notified().await;
                continue;
            };
            let wait_ms = u64::try_from(next_ms - self.now_ms()).unwrap_or(0);
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
            loop {
                let due = self.throttle().pop_due(self.now_ms());
                let Some(told) = due else { break };
                write(&told);
            }
        }
    }

    /// Writes all suppressed lines.
    pub(super) fn flush(&self) {
        loop {
            let left = self.throttle().pop();
            let Some(told) = left else { break };
            write(&told);
        }
    }

    fn throttle(&self) -> MutexGuard<'_, Throttle<Cause, Notice>> {
        self.throttle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> i64 {
        millis(self.began.elapsed())
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

fn write(told: &LogLine<Notice>) {
    let LogLine { notice, similar } = told;
    let Notice {
        event,
        handler,
        partition,
        offset,
        error,
        ..
    } = notice;
    let more = match similar {
        0 => String::new(),
        _ => format!(" (+{similar} similar)"),
    };
    tracing::warn!(event, handler, %partition, offset, error, similar, "{notice}{more}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_which_record_where_it_goes_and_why() {
        let failed = Notice {
            event: "handler_failed",
            handler: "orders".to_owned(),
            partition: TopicPartition::new("orders", 0),
            offset: 17,
            to: None,
            attempts: None,
            error: "no money".to_owned(),
        };
        assert_eq!(
            failed.to_string(),
            "orders-0@17: the handler of orders failed: no money"
        );
        let dead = Notice {
            to: Some("orders.dlq".to_owned()),
            attempts: Some(2),
            ..failed
        };
        assert_eq!(dead.to_string(), "orders-0@17 → orders.dlq after 2 attempts: no money");
    }
}
