//! One connection of a client, and the one to the broker behind it.

use std::{future::pending, net::SocketAddr, sync::Arc};

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
    leaders::Misled,
    state::{State, Weather},
};
use crate::faults::{Action, Rule};

/// Serves a client until it goes, the broker goes, or a fault ends the connection.
pub(super) async fn run(client: TcpStream, upstream: SocketAddr, state: Arc<State>, (node, number): (usize, u64)) {
    let Ok(broker) = TcpStream::connect(upstream).await else {
        return;
    };
    // Small pieces go out as they are, on either side.
    let _ = client.set_nodelay(true);
    let _ = broker.set_nodelay(true);
    let (client_in, client_out) = client.into_split();
    let (broker_in, broker_out) = broker.into_split();
    let (expect, expected) = mpsc::unbounded_channel();
    let mut weather = state.watch_weather();
    let link = Link {
        state,
        node,
        number,
        weather: weather.clone(),
    };
    let requests = link
        .clone()
        .forward_requests(Frames::new(client_in), broker_out, expect);
    let answers = link.forward_answers(Frames::new(broker_in), client_out, expected);
    let work = async {
        tokio::pin!(answers);
        tokio::select! {
            end = requests => if end == End::ClientGone {
                // The broker is to see all that was sent before.
                answers.await;
            },
            () = &mut answers => {}
        }
    };
    tokio::select! {
        () = work => {}
        _ = weather.wait_for(|weather| weather.cut_before > number) => {}
    }
}

#[derive(Debug, PartialEq, Eq)]
enum End {
    ClientGone,
    /// By a fault, or the broker.
    Closed,
}

/// What comes next on the way to the client.
enum Expected {
    /// An answer of the broker.
    Broker(Box<Asked>),
    /// An answer that has been made here.
    Own(Bytes),
    /// Nothing, and nothing more behind it.
    Never,
}

#[derive(Default)]
struct Asked {
    /// As rules see it; `None` if it cannot be read.
    request: Option<RequestFrame>,
    rule: Option<Arc<Rule>>,
    misled: Option<Misled>,
}

#[derive(Clone)]
struct Link {
    state: Arc<State>,
    node: usize,
    number: u64,
    weather: Receiver<Weather>,
}

impl Link {
    async fn forward_requests(
        mut self,
        mut client: Frames,
        mut broker: OwnedWriteHalf,
        expect: UnboundedSender<Expected>,
    ) -> End {
        let mut is_mute = false;
        while let Some(frame) = client.next().await {
            self.until_it_flows().await;
            if is_mute {
                continue;
            }
            if self.state.weather().strike_stall() {
                is_mute = true;
                let _ = expect.send(Expected::Never);
                continue;
            }
            let (forwarded, expected) = match self.decide(frame) {
                Decision::Forward(frame, expected) => (Some(frame), expected),
                Decision::Answer(answer) => (None, Some(Expected::Own(answer))),
                Decision::Mute => (None, Some(Expected::Never)),
                Decision::Close => return End::Closed,
            };
            is_mute = match &expected {
                Some(Expected::Never) => true,
                Some(Expected::Broker(asked)) => asked.drops_answer(),
                _ => false,
            };
            // Before the broker can answer.
            if let Some(expected) = expected {
                let _ = expect.send(expected);
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
            // The broker knows what to say.
            return Decision::Forward(frame, Some(Expected::Broker(Box::default())));
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
                Action::Answer(answer) => {
                    rule.strikes.strike();
                    return Decision::Answer(answer(&request));
                }
                _ => {}
            }
        }
        let (frame, misled) = self.state.leaders().lead_request(self.node, &request, frame);
        if wants_no_answer(&request) {
            return Decision::Forward(frame, None);
        }
        let asked = Asked {
            request: Some(request),
            rule,
            misled,
        };
        Decision::Forward(frame, Some(Expected::Broker(Box::new(asked))))
    }

    async fn forward_answers(
        mut self,
        mut broker: Frames,
        mut client: OwnedWriteHalf,
        mut expected: UnboundedReceiver<Expected>,
    ) {
        loop {
            let next = tokio::select! {
                // What the broker sends has been asked for, so that is there first.
                biased;
                next = expected.recv() => next,
                _ = broker.next() => return,
            };
            let answer = match next {
                None => return,
                Some(Expected::Never) => pending().await,
                Some(Expected::Own(answer)) => answer,
                Some(Expected::Broker(asked)) => {
                    let Some(answer) = broker.next().await else { return };
                    match self.change_answer(&asked, answer).await {
                        Some(answer) => answer,
                        None => return,
                    }
                }
            };
            self.write(&mut client, &answer).await;
        }
    }

    /// What the client gets; `None` if that is the end of its connection.
    async fn change_answer(&self, asked: &Asked, answer: Bytes) -> Option<Bytes> {
        let Some(request) = &asked.request else {
            return Some(answer);
        };
        let answer = self.state.leaders().lead_answer(request, asked.misled.as_ref(), answer);
        self.state.sessions().note_answer(request, &answer);
        let Some(rule) = &asked.rule else {
            return Some(answer);
        };
        rule.strikes.strike();
        match &rule.action {
            Action::Delay(delay) => tokio::time::sleep(*delay).await,
            Action::DropAnswer => pending().await,
            Action::CloseAfter => return None,
            Action::Change(change) => return Some(change(request, &answer)),
            _ => {}
        }
        Some(answer)
    }

    /// A client that is gone does not keep the rest from the broker.
    async fn write(&mut self, client: &mut OwnedWriteHalf, answer: &Bytes) {
        self.until_it_flows().await;
        let drip = self.state.weather().strike_drip();
        let Some((bytes, pause)) = drip else {
            let _ = client.write_all(answer).await;
            return;
        };
        for piece in answer.chunks(bytes) {
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
        if self.state.weather().strike_pause() || self.weather.borrow().frozen_before > number {
            let flows = |weather: &Weather| !weather.is_paused() && weather.frozen_before <= number;
            if self.weather.wait_for(flows).await.is_err() {
                pending::<()>().await;
            }
        }
    }
}

enum Decision {
    Forward(Bytes, Option<Expected>),
    Answer(Bytes),
    Mute,
    Close,
}

impl Asked {
    fn drops_answer(&self) -> bool {
        let rule = self.rule.as_ref();
        rule.is_some_and(|rule| matches!(rule.action, Action::DropAnswer))
    }
}

fn wants_no_answer(request: &RequestFrame) -> bool {
    let acks = || request.body::<ProduceRequest>().map(|request| request.acks);
    request.key == ApiKey::Produce && acks() == Ok(0)
}
