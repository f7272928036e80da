//! Keys that tokens name and the key set lacks: whether they are a reason to fetch it again.
//!
//! Anyone can send tokens with invented key ids, so the requests to the issuer are bounded. A key id leads to one refresh a
//! minute, 16 of them are remembered, and refreshes of all ids together are a second apart.

use std::collections::VecDeque;

const REMEMBERED_MAX: usize = 16;
const CHECK_AGAIN_AFTER_MS: u64 = 60_000;
const KEY_ID_CHARS_MAX: usize = 1_000;
const REFRESH_INTERVAL_MS_MIN: u64 = 1_000;

#[derive(Debug, Default)]
pub(super) struct MissingKeys {
    /// Key ids, and when they are a reason for a refresh again. The one that was used last is at the end.
    remembered: VecDeque<(String, u64)>,
    is_refreshing: bool,
    last_refresh_ms: Option<u64>,
}

/// The way to go on with a token whose key is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MissingKey {
    /// Fetch the keys now, and verify the token again.
    Refresh,
    /// The keys are being fetched; verify the token again after that.
    Wait,
    Refuse,
}

impl MissingKeys {
    /// Decides about a token with an unknown key.
    pub(super) fn handle_missing(&mut self, key_id: &str, now_ms: u64) -> MissingKey {
        if key_id.chars().count() > KEY_ID_CHARS_MAX {
            return MissingKey::Refuse;
        }
        let place = self.remembered.iter().position(|(remembered, _)| remembered == key_id);
        let known = place.and_then(|place| self.remembered.remove(place));
        if let Some((key_id, again_ms)) = known.filter(|(_, again_ms)| now_ms < *again_ms) {
            self.remembered.push_back((key_id, again_ms));
            return if self.is_refreshing {
                MissingKey::Wait
            } else {
                MissingKey::Refuse
            };
        }
        if self.is_refreshing {
            self.remember(key_id, now_ms);
            return MissingKey::Wait;
        }
        let is_too_early = |last_ms| now_ms.saturating_sub(last_ms) < REFRESH_INTERVAL_MS_MIN;
        if self.last_refresh_ms.is_some_and(is_too_early) {
            return MissingKey::Refuse;
        }
        self.remember(key_id, now_ms);
        self.handle_refresh(now_ms);
        MissingKey::Refresh
    }

    fn remember(&mut self, key_id: &str, now_ms: u64) {
        self.remembered
            .push_back((key_id.to_owned(), now_ms + CHECK_AGAIN_AFTER_MS));
        if self.remembered.len() > REMEMBERED_MAX {
            self.remembered.pop_front();
        }
    }

    /// A refresh begins.
    pub(super) fn handle_refresh(&mut self, now_ms: u64) {
        self.is_refreshing = true;
        self.last_refresh_ms = Some(now_ms);
    }

    /// A refresh has ended; `has_key` knows the keys that are there now.
    pub(super) fn handle_refreshed(&mut self, has_key: impl Fn(&str) -> bool) {
        self.is_refreshing = false;
        self.remembered.retain(|(key_id, _)| !has_key(key_id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_id_is_a_reason_once_a_minute() {
        let mut keys = MissingKeys::default();
        assert_eq!(keys.handle_missing("a", 0), MissingKey::Refresh);
        assert_eq!(keys.handle_missing("a", 10), MissingKey::Wait);
        assert_eq!(keys.handle_missing("b", 10), MissingKey::Wait);
        keys.handle_refreshed(|_| false);
        for (key_id, now_ms) in [("a", 59_999), ("b", 60_009)] {
            assert_eq!(keys.handle_missing(key_id, now_ms), MissingKey::Refuse, "{key_id}");
        }
        assert_eq!(keys.handle_missing("a", 60_000), MissingKey::Refresh);
    }

    #[test]
    fn many_key_ids_are_no_reason_for_many_refreshes() {
        let mut keys = MissingKeys::default();
        let mut refreshes = 0;
        for now_ms in 0..10_000_u64 {
            if keys.handle_missing(&format!("key-{now_ms}"), now_ms) == MissingKey::Refresh {
                refreshes += 1;
                keys.handle_refreshed(|_| false);
            }
            assert!(keys.remembered.len() <= REMEMBERED_MAX);
        }
        assert_eq!(refreshes, 10);
    }

    #[test]
    fn a_key_that_was_found_is_forgotten_and_a_long_one_is_never_looked_for() {
        let mut keys = MissingKeys::default();
        assert_eq!(keys.handle_missing("a", 0), MissingKey::Refresh);
        keys.handle_refreshed(|key_id| key_id == "a");
        // The issuer takes it away again.
        assert_eq!(keys.handle_missing("a", 5_000), MissingKey::Refresh);
        keys.handle_refreshed(|_| false);
        assert_eq!(keys.handle_missing(&"k".repeat(1_001), 10_000), MissingKey::Refuse);
        assert_eq!(keys.handle_missing(&"k".repeat(1_000), 10_000), MissingKey::Refresh);
    }
}
