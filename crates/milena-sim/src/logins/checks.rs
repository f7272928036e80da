//! The conditions that hold in every run.

/// The first condition that did not hold.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) failure: Option<String>,
}

/// The session of a connection as the checker sees it, from the credentials alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckedSession {
    pub(super) principal: String,
    pub(super) end_ms: Option<u64>,
}

impl Checks {
    pub(super) fn demand(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some(problem());
        }
    }

    /// No request is served before the log-in, none after the end of the session.
    pub(super) fn served(&mut self, session: Option<&CheckedSession>, now_ms: u64, request: u32) {
        match session {
            None => self.demand(false, || format!("request {request} is served without a log-in")),
            Some(session) => {
                let is_over = session.end_ms.is_some_and(|end_ms| now_ms > end_ms);
                self.demand(!is_over, || {
                    format!("request {request} is served after its session ended: {session:?}")
                });
            }
        }
    }

    /// A principal never changes.
    pub(super) fn logged_in(&mut self, before: Option<&CheckedSession>, principal: &str) {
        if let Some(before) = before {
            self.demand(before.principal == principal, || {
                format!("the principal {} became {principal}", before.principal)
            });
        }
    }
}
