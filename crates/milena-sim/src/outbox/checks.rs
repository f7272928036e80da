//! The conditions that hold in every run.

/// The first condition that did not hold.
#[derive(Debug, Default)]
pub(super) struct Checks {
    pub(super) failure: Option<String>,
}

impl Checks {
    pub(super) fn demand(&mut self, holds: bool, problem: impl FnOnce() -> String) {
        if !holds && self.failure.is_none() {
            self.failure = Some(problem());
        }
    }
}
