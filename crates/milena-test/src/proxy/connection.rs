//! One connection of a client, and the one to the broker behind it.

use std::{future, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use milena_wire::{
    api::ApiKey,
    frame::{self, RequestFrame},
    messages::ProduceRequest,
};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, tcp::OwnedWriteHalf},
    sync::{
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        watch::Receiver,
    },
};

use super::{
    frames::Frames,
    leaders::RejectedPartitions,
    state::{Conditions, State},
};
use crate::faults::{Action, Rule};

/// Serves a client until it goes, the broker goes, or a fault ends the connection.
pub(super) async fn run(client: TcpStream, upstream: SocketAddr, state: Arc<State>, node: usize, number: u64) {
    let Ok(broker) = TcpStream::connect(upstream).await else {
        return;
    };
    // Small pieces go out as they are, on either side.
    let _ = client.set_nodelay(true);
    let _ = broker.set_nodelay(true);
    let (client_in, client_out) = client.into_split();
    let (broker_in, broker_out) = broker.into_split();
    let (pending_out, pending) = mpsc::unbounded_channel();
    let mut conditions = state.watch_conditions();
    let link = Link {
        state,
        node,
        number,
        conditions: conditions.clone(),
    };
    let requests = link
        .clone()
        .forward_requests(Frames::new(client_in), broker_out, pending_out);
    let responses = link.forward_responses(Frames::new(broker_in), client_out, pending);
    let work = async {
        tokio::pin!(responses);
        tokio::select! {
            end = requests => if end == End::ClientGone {
                // The broker is to see all that was sent before.
                responses.await;
            },
            () = &mut responses => {}
        }
    };
    tokio::select! {
        () = work => {}
        _ = conditions.wait_for(|conditions| conditions.cut_before > number) => {}
    }
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    ClientGone,
    /// By a fault, or the broker.
    Closed,
}

/// The next response to the client.
enum PendingResponse {
    /// A response of the broker.
    Broker(Box<PendingRequest>),
    /// A response that was created here.
    Own(Bytes),
    /// Nothing, and nothing more behind it.
    Never,
}

#[derive(Default)]
struct PendingRequest {
    /// As rules see it; `None` if it cannot be read.
    request: Option<RequestFrame>,
    rule: Option<Arc<Rule>>,
    rejected: Option<RejectedPartitions>,
}

#[derive(Clone)]
struct Link {
    state: Arc<State>,
    node: usize,
    number: u64,
    conditions: Receiver<Conditions>,
}

impl Link {
    async fn forward_requests(
        mut self,
        mut client: Frames,
        mut broker: OwnedWriteHalf,
        pending_out: UnboundedSender<PendingResponse>,
    ) -> End {
        let mut is_mute = false;
        while let Some(frame) = client.next().await {
            self.until_it_flows().await;
            if is_mute {
                continue;
            }
            if self.state.conditions().strike_stall() {
                is_mute = true;
                let _ = pending_out.send(PendingResponse::Never);
                continue;
            }
            let (forwarded, pending) = match self.decide(frame) {
                Decision::Forward(frame, pending) => (Some(frame), pending),
                Decision::Respond(response) => (None, Some(PendingResponse::Own(response))),
                Decision::Mute => (None, Some(PendingResponse::Never)),
                Decision::Close => return End::Closed,
            };
            is_mute = match &pending {
                Some(PendingResponse::Never) => true,
                Some(PendingResponse::Broker(request_state)) => request_state.drops_response(),
                _ => false,
            };
            // Before the broker can respond.
            if let Some(pending) = pending {
                let _ = pending_out.send(pending);
            }
            if let Some(frame) = forwarded
                && broker.write_all(&frame).await.is_err()
            {
                return End::Closed;
            }
        }
        End::ClientGone
    }

    fn decide(&self, frame: Bytes) -> Decision {
        let Ok(request) = RequestFrame::parse(frame.slice(frame::LENGTH_SIZE..)) else {
            // The broker responds with an error.
            return Decision::Forward(frame, Some(PendingResponse::Broker(Box::default())));
        };
        let request = self.state.sessions().complete(request);
        let rule = self.state.rules.for_request(&request);
        if let Some(rule) = &rule {
            match &rule.action {
                Action::CloseBefore => {
                    rule.strikes.strike();
                    return Decision::Close;
                }
                Action::DropRequest => {
                    rule.strikes.strike();
                    return Decision::Mute;
                }
                Action::Respond(response) => {
                    rule.strikes.strike();
                    return Decision::Respond(response(&request));
                }
                _ => {}
            }
        }
        let (frame, rejected) = self.state.leaders().lead_request(self.node, &request, frame);
        if expects_no_response(&request) {
            return Decision::Forward(frame, None);
        }
        let request_state = PendingRequest {
            request: Some(request),
            rule,
            rejected,
        };
        Decision::Forward(frame, Some(PendingResponse::Broker(Box::new(request_state))))
    }

    async fn forward_responses(
        mut self,
        mut broker: Frames,
        mut client: OwnedWriteHalf,
        mut pending: UnboundedReceiver<PendingResponse>,
    ) {
        loop {
            let next = tokio::select! {
                // A pending request is queued before its response arrives, so it is checked first.
                biased;
                next = pending.recv() => next,
                _ = broker.next() => return,
            };
            let response = match next {
                None => return,
                Some(PendingResponse::Never) => future::pending().await,
                Some(PendingResponse::Own(response)) => response,
                Some(PendingResponse::Broker(request_state)) => {
                    let Some(response) = broker.next().await else { return };
                    match self.change_response(&request_state, response).await {
                        Some(response) => response,
                        None => return,
                    }
                }
            };
            self.write(&mut client, &response).await;
        }
    }

    /// The response for the client; `None` closes its connection.
    async fn change_response(&self, request_state: &PendingRequest, response: Bytes) -> Option<Bytes> {
        let Some(request) = &request_state.request else {
            return Some(response);
        };
        let response = self
            .state
            .leaders()
            .lead_response(request, request_state.rejected.as_ref(), response);
        self.state.sessions().note_response(request, &response);
        let Some(rule) = &request_state.rule else {
            return Some(response);
        };
        rule.strikes.strike();
        match &rule.action {
            Action::Delay(delay) => tokio::time::sleep(*delay).await,
            Action::DropResponse => future::pending().await,
            Action::CloseAfter => return None,
            Action::Change(change) => return Some(change(request, &response)),
            _ => {}
        }
        Some(response)
    }

    /// A client that has disconnected does not prevent the rest from reaching the broker.
    async fn write(&mut self, client: &mut OwnedWriteHalf, response: &Bytes) {
        self.until_it_flows().await;
        let drip = self.state.conditions().strike_drip();
        let Some((bytes, pause)) = drip else {
            let _ = client.write_all(response).await;
            return;
        };
        for piece in response.chunks(bytes) {
            if client.write_all(piece).await.is_err() {
                return;
            }
            if pause.is_zero() {
                tokio::task::yield_now().await;
            } else {
                tokio::time::sleep(pause).await;
            }
        }
    }

    async fn until_it_flows(&mut self) {
        let number = self.number;
        if self.state.conditions().strike_pause() || self.conditions.borrow().frozen_before > number {
            let flows = |conditions: &Conditions| !conditions.is_paused() && conditions.frozen_before <= number;
            if self.conditions.wait_for(flows).await.is_err() {
                future::pending::<()>().await;
            }
        }
    }
}

enum Decision {
    Forward(Bytes, Option<PendingResponse>),
    Respond(Bytes),
    Mute,
    Close,
}

impl PendingRequest {
    fn drops_response(&self) -> bool {
        let rule = self.rule.as_ref();
        rule.is_some_and(|rule| matches!(rule.action, Action::DropResponse))
    }
}

fn expects_no_response(request: &RequestFrame) -> bool {
    let acks = || request.body::<ProduceRequest>().map(|request| request.acks);
    request.key == ApiKey::Produce && acks() == Ok(0)
}
