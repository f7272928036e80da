//! Rules: the requests that a fault strikes, and its effect on them.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use milena_wire::{api::ApiKey, frame::RequestFrame};

use super::Strikes;

pub(crate) type Predicate = Box<dyn Fn(&RequestFrame) -> bool + Send + Sync>;
/// Makes a whole frame.
pub(crate) type MakeResponse = Box<dyn Fn(&RequestFrame) -> Bytes + Send + Sync>;
/// Makes a whole frame from one that the broker has sent.
pub(crate) type Change = Box<dyn Fn(&RequestFrame, &Bytes) -> Bytes + Send + Sync>;

pub(crate) enum Action {
    /// Nothing happens. Other rules can still strike.
    Count,
    Delay(Duration),
    DropRequest,
    DropResponse,
    CloseBefore,
    CloseAfter,
    /// The broker never sees the request.
    Respond(MakeResponse),
    /// After the response of the broker.
    Change(Change),
}

pub(crate) struct Rule {
    pub(crate) key: ApiKey,
    pub(crate) client_id: Option<String>,
    pub(crate) predicate: Option<Predicate>,
    /// Requests that fit and are spared first.
    pub(crate) skip: u64,
    /// Number of strikes after that.
    pub(crate) times: u64,
    pub(crate) action: Action,
    pub(crate) strikes: Strikes,
}

impl Rule {
    fn fits(&self, request: &RequestFrame) -> bool {
        let client_id = request.client_id.as_deref();
        self.key == request.key
            && self.client_id.as_deref().is_none_or(|wanted| client_id == Some(wanted))
            && self.predicate.as_ref().is_none_or(|predicate| predicate(request))
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rule")
            .field("key", &self.key)
            .field("strikes", &self.strikes)
            .finish_non_exhaustive()
    }
}

/// All rules, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Mutex<Vec<Standing>>,
}

#[derive(Debug)]
struct Standing {
    rule: Arc<Rule>,
    /// Matching requests so far.
    met: u64,
}

impl Rules {
    pub(crate) fn add(&self, rule: Arc<Rule>) {
        self.rules().push(Standing { rule, met: 0 });
    }

    pub(crate) fn remove(&self, rule: &Arc<Rule>) {
        self.rules().retain(|standing| !Arc::ptr_eq(&standing.rule, rule));
    }

    pub(crate) fn clear(&self) {
        self.rules().clear();
    }

    /// The rule that strikes a request.
    pub(crate) fn for_request(&self, request: &RequestFrame) -> Option<Arc<Rule>> {
        for standing in &mut *self.rules() {
            let Standing { rule, met } = standing;
            if !rule.fits(request) {
                continue;
            }
            *met += 1;
            if *met <= rule.skip || *met - rule.skip > rule.times {
                continue;
            }
            if matches!(rule.action, Action::Count) {
                rule.strikes.strike();
                continue;
            }
            return Some(Arc::clone(rule));
        }
        None
    }

    fn rules(&self) -> MutexGuard<'_, Vec<Standing>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
