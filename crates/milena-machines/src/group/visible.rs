//! The topics that a client may see.

use std::{fmt, sync::Arc};

use bytestring::ByteString;

type IsVisible = dyn Fn(&ByteString) -> bool + Send + Sync;

/// The topics that a client may see: all of them, or those of a rule.
#[derive(Clone, Default)]
pub struct VisibleTopics(Option<Arc<IsVisible>>);

impl VisibleTopics {
    pub fn new(is_visible: impl Fn(&ByteString) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(is_visible)))
    }

    pub(super) fn contains(&self, topic: &ByteString) -> bool {
        self.0.as_ref().is_none_or(|is_visible| is_visible(topic))
    }
}

impl fmt::Debug for VisibleTopics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "by a rule" } else { "all" })
    }
}
