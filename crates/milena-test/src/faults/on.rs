//! Faults of one kind of request.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use milena_wire::{
    errors::ErrorCode,
    frame::{self, RequestFrame},
    message::Request,
};

use super::{Action, Fault, Rule, Strikes, Throttles, errors, rule::Predicate};
use crate::proxy::State;

/// Builds a fault: first the selection of requests, then their fate. By default every request of the kind is
/// struck.
#[must_use = "a fault is at work when it has been said what happens"]
pub struct FaultsOn<R> {
    state: Arc<State>,
    client_id: Option<String>,
    predicate: Option<Predicate>,
    skip: u64,
    times: u64,
    kind: PhantomData<fn(R)>,
}

impl<R: Request + 'static> FaultsOn<R> {
    pub(super) fn new(state: Arc<State>) -> Self {
        Self {
            state,
            client_id: None,
            predicate: None,
            skip: 0,
            times: u64::MAX,
            kind: PhantomData,
        }
    }

    /// Only requests of this client.
    pub fn client_id(mut self, client_id: impl Into<String>) -> Self {
        self.client_id = Some(client_id.into());
        self
    }

    /// Only requests that look like this.
    pub fn when(mut self, fits: impl Fn(&R) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Box::new(move |request| fits(&body(request))));
        self
    }

    /// The n-th request from now on, and no other.
    pub fn nth(self, n: u64) -> Self {
        assert!(n > 0, "the first request is number 1");
        self.skip(n - 1).times(1)
    }

    /// Spares so many first.
    pub fn skip(mut self, requests: u64) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes this number of requests, then no more.
    pub fn times(mut self, requests: u64) -> Self {
        self.times = requests;
        self
    }

    /// The next one only.
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Nothing happens to them: they are only counted. Other faults strike them all the same.
    pub fn count(self) -> Fault {
        self.add("is counted", Action::Count)
    }

    /// Delays the broker's response, and everything behind it on its connection.
    pub fn delay(self, delay: Duration) -> Fault {
        self.add("gets a late response", Action::Delay(delay))
    }

    /// The broker never gets the request. The connection stays open, but nothing passes through it any more.
    pub fn drop_request(self) -> Fault {
        self.add("gets lost", Action::DropRequest)
    }

    /// The broker handles the request, but its response is lost. The connection stays open, but nothing passes
    /// through it any more.
    pub fn drop_response(self) -> Fault {
        self.add("gets no response, although it is handled", Action::DropResponse)
    }

    /// The connection ends, and the broker never sees the request.
    pub fn close_before(self) -> Fault {
        self.add("ends its connection before the broker sees it", Action::CloseBefore)
    }

    /// The broker handles the request, and the connection is closed without a response.
    pub fn close_after(self) -> Fault {
        self.add("closes its connection after it is handled", Action::CloseAfter)
    }

    /// `make` creates the response in place of the broker, which never gets the request. Its second argument is
    /// the version of the response.
    pub fn respond(self, make: impl FnMut(&R, i16) -> R::Response + Send + 'static) -> Fault {
        let make = Mutex::new(make);
        let make = move |request: &RequestFrame| {
            let mut make = make.lock().unwrap_or_else(PoisonError::into_inner);
            encode::<R>(request, &make(&body(request), request.version))
        };
        self.add("gets a response of the test", Action::Respond(Box::new(make)))
    }

    /// Changes the broker's own response.
    ///
    /// ```
    /// # use milena_test::{ErrorCode, TestBroker, messages::MetadataRequest};
    /// # let broker = TestBroker::start();
    /// // Clients do not see the topic.
    /// broker.faults().on::<MetadataRequest>().change_response(|_request, response| {
    ///     for topic in &mut response.topics {
    ///         topic.error_code = ErrorCode::UnknownTopicOrPartition.code();
    ///         topic.partitions.clear();
    ///     }
    /// });
    /// ```
    pub fn change_response(self, change: impl FnMut(&R, &mut R::Response) + Send + 'static) -> Fault {
        self.change("gets a changed response", change)
    }

    /// The response is this error, for everything that the request names. The broker handles only Fetch and Metadata, which
    /// change nothing there.
    ///
    /// Errors of fetch sessions and REBOOTSTRAP_REQUIRED stand where Kafka has them: above all partitions and topics.
    pub fn respond_error(self, code: ErrorCode) -> Fault {
        let text = format!("gets the error {code}");
        if errors::is_set_in_broker_response(R::KEY) {
            return self.change(&text, move |request: &R, response| errors::set(code, request, response));
        }
        let make = move |request: &RequestFrame| {
            let response = body::<R>(request).error_response(request.version, code);
            let response = response.unwrap_or_else(|| panic!("{} has no field for {code}", request.key));
            encode::<R>(request, &response)
        };
        self.add(&text, Action::Respond(Box::new(make)))
    }

    /// Sets the throttle time of the response.
    pub fn throttle(self, millis: i32) -> Fault
    where
        R::Response: Throttles,
    {
        let change = move |_: &R, response: &mut R::Response| response.set_throttle_time_ms(millis);
        self.change("is throttled", change)
    }

    fn change(self, text: &str, change: impl FnMut(&R, &mut R::Response) + Send + 'static) -> Fault {
        let change = Mutex::new(change);
        let change = move |request: &RequestFrame, bytes: &Bytes| {
            let decoded = frame::decode_response::<R::Response>(&bytes.slice(frame::LENGTH_SIZE..), request.version);
            let (_, mut response) =
                decoded.unwrap_or_else(|error| panic!("a response of the broker does not decode: {error}"));
            let mut change = change.lock().unwrap_or_else(PoisonError::into_inner);
            change(&body(request), &mut response);
            encode::<R>(request, &response)
        };
        self.add(text, Action::Change(Box::new(change)))
    }

    fn add(self, text: &str, action: Action) -> Fault {
        let strikes = Strikes::new(format!("{} {text}", R::KEY));
        let rule = Arc::new(Rule {
            key: R::KEY,
            client_id: self.client_id,
            predicate: self.predicate,
            skip: self.skip,
            times: self.times,
            action,
            strikes: strikes.clone(),
        });
        self.state.rules.add(Arc::clone(&rule));
        let state = Arc::clone(&self.state);
        let remove = move || state.rules.remove(&rule);
        Fault::new(strikes, self.state.handle.clone(), Box::new(remove))
    }
}

impl<R> fmt::Debug for FaultsOn<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FaultsOn").finish_non_exhaustive()
    }
}

/// The body of a request.
fn body<R: Request>(request: &RequestFrame) -> R {
    request
        .body()
        .unwrap_or_else(|error| panic!("a request of a client: {error}"))
}

fn encode<R: Request>(request: &RequestFrame, response: &R::Response) -> Bytes {
    let frame = frame::encode_response(response, request.version, request.correlation_id);
    frame
        .unwrap_or_else(|error| panic!("a response of the test does not encode: {error}"))
        .into_bytes()
}
