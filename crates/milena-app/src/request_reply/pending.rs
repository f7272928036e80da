//! Pending requests, as futures.

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use milena_client::producer::{Delivery, SendError, WriteStatus};
use milena_machines::request_reply::CorrelationId;
use tokio::sync::oneshot;

use super::{Reply, RequestError, requester::Link};

/// How a pending request ends.
#[derive(Debug)]
pub(super) enum Ending {
    Reply(Reply),
    TimedOut(Option<String>),
    Closed,
}

/// A request that is sent, and its reply in the future. Dropping it cancels the wait: a later reply is ignored. The
/// request itself cannot be called back.
#[must_use = "dropping it cancels the wait for the reply"]
pub struct PendingReply {
    pub(super) link: Arc<Link>,
    pub(super) id: CorrelationId,
    pub(super) reply: oneshot::Receiver<Ending>,
    /// The delivery of the request, until its result is known.
    pub(super) delivery: Option<Delivery>,
    /// The request may not have been written, for this reason.
    pub(super) doubt: Option<Box<SendError>>,
    pub(super) timeout: Duration,
}

impl PendingReply {
    /// The id of the request in the header `correlation_id`.
    pub fn correlation_id(&self) -> CorrelationId {
        self.id
    }

    fn end(&mut self, ending: Result<Ending, oneshot::error::RecvError>) -> Result<Reply, RequestError> {
        match ending {
            Ok(Ending::Reply(reply)) => match reply.failure() {
                None => Ok(reply),
                Some((class, message)) => Err(RequestError::Failed { class, message, reply }),
            },
            Ok(Ending::TimedOut(problem)) => {
                let doubt = self.doubt.take();
                let doubt = doubt.map(|error| format!("the request may not have been written: {error}"));
                Err(RequestError::TimedOut {
                    waited: self.timeout,
                    problem: doubt.or(problem),
                })
            }
            Ok(Ending::Closed) | Err(_) => Err(RequestError::Closed),
        }
    }
}

impl Future for PendingReply {
    type Output = Result<Reply, RequestError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if let Poll::Ready(ending) = Pin::new(&mut this.reply).poll(cx) {
            return Poll::Ready(this.end(ending));
        }
        if let Some(delivery) = &mut this.delivery
            && let Poll::Ready(written) = Pin::new(delivery).poll(cx)
        {
            this.delivery = None;
            match written {
                Ok(_) => {}
                Err(error) if error.write_status() == WriteStatus::NotWritten => {
                    return Poll::Ready(Err(error.into()));
                }
                // It may be in the log, and be answered.
                Err(error) => this.doubt = Some(Box::new(error)),
            }
        }
        Poll::Pending
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.link.shared.cancel(self.id);
        self.link.shared.room.add_permits(1);
    }
}

impl fmt::Debug for PendingReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingReply")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
