//! Requesters as part of an application.

use super::Requester;
use crate::App;

impl App {
    /// Adds a requester: handlers take it as `State<Requester>`, and the metrics of the application contain its
    /// counters. It is not closed with the application.
    pub fn requester(mut self, requester: Requester) -> Self {
        self.requesters.push(requester.clone());
        self.state(requester)
    }
}
