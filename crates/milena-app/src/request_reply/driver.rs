//! The tasks of a requester: one reads replies, the other ends requests whose deadline has come.

use std::{sync::Arc, time::Duration};

use milena_client::consumer::{Consumer, ConsumerRecords, PollError, RecordRef};
use milena_machines::request_reply::ReplyVerdict;

use super::{
    Reply,
    headers::{CORRELATION_ID, SPRING_CORRELATION_ID},
    pending::Ending,
    requester::Shared,
};

/// Time of one poll without replies.
const POLL_TIMEOUT: Duration = Duration::from_secs(60);
/// Wait after an error that the consumer does not retry by itself.
const ERROR_PAUSE: Duration = Duration::from_millis(500);

/// Reads replies until the requester closes.
pub(super) async fn read_replies(shared: Arc<Shared>, mut consumer: Consumer) {
    loop {
        let polled = tokio::select! {
            biased;
            polled = consumer.poll(POLL_TIMEOUT) => polled,
            () = shared.closing.notified() => break,
        };
        match polled {
            Ok(records) => take_replies(&shared, &records),
            Err(PollError::Closed) => break,
            Err(error) => {
                if let PollError::Unreadable {
                    partition, next_offset, ..
                } = &error
                {
                    // Its replies are lost; the requests time out and say why.
                    let _ = consumer.seek(partition, *next_offset);
                }
                report(&shared, &error);
                tokio::select! {
                    () = tokio::time::sleep(ERROR_PAUSE) => {}
                    () = shared.closing.notified() => break,
                }
            }
        }
    }
    if let Err(error) = consumer.close().await {
        tracing::debug!(event = "reply_consumer_close_failed", %error, "the consumer of replies did not close: {error}");
    }
}

/// Logs a problem when it is new, and keeps it for the errors of requests that time out.
fn report(shared: &Shared, error: &PollError) {
    let problem = format!("replies cannot be read: {error}");
    let mut state = shared.state();
    if state.problem.as_ref() == Some(&problem) {
        return;
    }
    state.problem = Some(problem);
    drop(state);
    let partition = &shared.partition;
    tracing::warn!(event = "replies_unreadable", %partition, %error, "replies of {partition} cannot be read: {error}");
}

fn take_replies(shared: &Shared, records: &ConsumerRecords) {
    if records.is_empty() {
        return;
    }
    // Tasks are woken without the lock, which they are about to take.
    let mut completed = Vec::with_capacity(records.len());
    let mut state = shared.state();
    state.problem = None;
    for record in records {
        match state.requests.handle_reply(correlation(&record)) {
            ReplyVerdict::Completes(waiter) => completed.push((waiter, Reply::new(record.to_owned()))),
            ReplyVerdict::Foreign => {}
            verdict => {
                let offset = record.offset();
                tracing::debug!(
                    event = "reply_ignored",
                    ?verdict,
                    offset,
                    "reply at offset {offset} ignored: {verdict:?}"
                );
            }
        }
    }
    drop(state);
    for (waiter, reply) in completed {
        // Its future was dropped in this moment.
        let _ = waiter.send(Ending::Reply(reply));
    }
}

/// The correlation id of a reply, under our name or Spring's.
fn correlation<'a>(record: &RecordRef<'a>) -> Option<&'a [u8]> {
    let mut spring = None;
    for header in record.headers() {
        if header.key == CORRELATION_ID.as_bytes() {
            return header.value;
        }
        if header.key == SPRING_CORRELATION_ID.as_bytes() {
            spring = header.value;
        }
    }
    spring
}

/// Ends requests at their deadlines.
pub(super) async fn expire(shared: Arc<Shared>) {
    loop {
        let next_ms = {
            let mut state = shared.state();
            state.armed_ms = state.requests.next_deadline();
            state.armed_ms
        };
        match next_ms {
            None => shared.earlier.notified().await,
            Some(at_ms) => tokio::select! {
                () = shared.clock.sleep_until(at_ms) => {}
                () = shared.earlier.notified() => {}
            },
        }
        let now_ms = shared.clock.now_ms();
        let mut expired = vec![];
        let problem = {
            let mut state = shared.state();
            while let Some(waiter) = state.requests.poll_expired(now_ms) {
                expired.push(waiter);
            }
            state.problem.clone()
        };
        for waiter in expired {
            let _ = waiter.send(Ending::TimedOut(problem.clone()));
        }
    }
}
