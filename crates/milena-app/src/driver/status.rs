//! What an engine can tell about itself.

use super::Engine;
use crate::metrics::HandlerCounts;

impl Engine {
    pub(crate) fn counts(&self) -> impl Iterator<Item = HandlerCounts> {
        self.metrics.iter().map(|metrics| metrics.snapshot())
    }
}
