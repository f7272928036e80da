//! Leader epochs: which leader wrote from which offset on.

/// The first offset of each epoch, both growing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LeaderEpochs {
    starts: Vec<(i32, i64)>,
}

impl LeaderEpochs {
    /// Takes the entries of a checkpoint. Entries that contradict earlier ones are dropped.
    pub(crate) fn from_checkpoint(starts: Vec<(i32, i64)>) -> Self {
        let mut epochs = Self::default();
        for (epoch, offset) in starts {
            epochs.assign(epoch, offset);
        }
        epochs
    }

    pub(crate) fn as_slice(&self) -> &[(i32, i64)] {
        &self.starts
    }

    pub(crate) fn latest(&self) -> Option<i32> {
        self.starts.last().map(|(epoch, _)| *epoch)
    }

    /// Whether nothing of `epoch` or a later one is known yet.
    pub(crate) fn is_news(&self, epoch: i32) -> bool {
        epoch >= 0 && self.latest().is_none_or(|latest| epoch > latest)
    }

    /// Notes that `epoch` wrote at `offset`, if that is news.
    pub(crate) fn assign(&mut self, epoch: i32, offset: i64) {
        if self.is_news(epoch) {
            // An epoch that wrote nothing ends where it began.
            self.starts.retain(|(_, start)| *start < offset);
            self.starts.push((epoch, offset));
        }
    }

    /// The end offset of `epoch`, and the epoch that it belongs to: the largest one not above the requested
    /// one. The current leader, in epoch `leading`, begins at the end of the log until it writes. `None` if the
    /// epoch is newer than that.
    pub(crate) fn end_offset(&self, epoch: i32, leading: i32, log_end: i64) -> Option<(i32, i64)> {
        let newer = self.starts.partition_point(|(start, _)| *start <= epoch);
        let end = match self.starts.get(newer) {
            Some((_, end)) => *end,
            None if epoch > leading && self.latest() != Some(epoch) => return None,
            None => log_end,
        };
        let found = newer.checked_sub(1).and_then(|older| self.starts.get(older));
        Some(match found {
            Some((found, _)) if epoch != leading => (*found, end),
            // The current epoch, or one before the first known: all of it is before the log.
            _ => (epoch, end),
        })
    }

    /// The epoch that wrote `offset`.
    pub(crate) fn epoch_at(&self, offset: i64) -> Option<i32> {
        let after = self.starts.partition_point(|(_, start)| *start <= offset);
        let (epoch, _) = after.checked_sub(1).and_then(|place| self.starts.get(place))?;
        Some(*epoch)
    }

    /// Drops the entries at or after `end`.
    pub(crate) fn truncate_end(&mut self, end: i64) {
        self.starts.retain(|(_, start)| *start < end);
    }

    /// Drops the entries before `start`; the epoch in force there now begins there.
    pub(crate) fn truncate_start(&mut self, start: i64) {
        let Some(epoch) = self.epoch_at(start) else {
            return;
        };
        self.starts.retain(|(_, first)| *first > start);
        self.starts.insert(0, (epoch, start));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs() -> LeaderEpochs {
        LeaderEpochs::from_checkpoint(vec![(1, 10), (3, 20), (5, 30)])
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next() {
        let ends = [
            (0, Some((0, 10))),
            (1, Some((1, 20))),
            (2, Some((1, 20))),
            (3, Some((3, 30))),
            (4, Some((3, 30))),
            (5, Some((5, 40))),
            (6, None),
        ];
        for (epoch, expected) in ends {
            assert_eq!(epochs().end_offset(epoch, 5, 40), expected, "epoch {epoch}");
        }
    }

    #[test]
    fn a_leader_that_has_not_written_begins_at_the_end_of_the_log() {
        let ends = [
            (4, Some((3, 30))),
            (5, Some((5, 40))),
            (6, Some((5, 40))),
            (7, Some((7, 40))),
            (8, None),
        ];
        for (epoch, expected) in ends {
            assert_eq!(epochs().end_offset(epoch, 7, 40), expected, "epoch {epoch}");
        }
        let empty = LeaderEpochs::default();
        assert_eq!(empty.end_offset(0, 0, 40), Some((0, 40)));
        assert_eq!(empty.end_offset(0, 2, 40), Some((0, 40)));
        assert_eq!(empty.end_offset(3, 2, 40), None);
    }

    #[test]
    fn epochs_only_grow() {
        let mut epochs = epochs();
        for old in [5, 4, -1] {
            assert!(!epochs.is_news(old));
            epochs.assign(old, 35);
        }
        assert_eq!(epochs.as_slice(), [(1, 10), (3, 20), (5, 30)]);
        assert!(epochs.is_news(6));
        epochs.assign(6, 30);
        assert_eq!(epochs.as_slice(), [(1, 10), (3, 20), (6, 30)], "epoch 5 wrote nothing");
    }

    #[test]
    fn truncation_keeps_what_is_left_right() {
        let mut cut = epochs();
        cut.truncate_end(20);
        assert_eq!(cut.as_slice(), [(1, 10)]);
        let mut cut = epochs();
        cut.truncate_start(25);
        assert_eq!(cut.as_slice(), [(3, 25), (5, 30)]);
        let mut cut = epochs();
        cut.truncate_start(30);
        assert_eq!(cut.as_slice(), [(5, 30)]);
        let mut cut = epochs();
        cut.truncate_start(5);
        assert_eq!(cut.as_slice(), epochs().as_slice());
        assert_eq!(epochs().epoch_at(29), Some(3));
        assert_eq!(epochs().epoch_at(9), None);
    }
}
