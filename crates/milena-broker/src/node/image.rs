//! The topics as the coordinators see them.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use milena_machines::{TopicImage, TopicsImage};

use super::Node;

/// A picture of the topics, made anew when somebody looks at one that is old.
#[derive(Debug, Default)]
pub(super) struct TopicsCache {
    version: AtomicU64,
    cached: Mutex<(u64, Arc<TopicsImage>)>,
}

impl TopicsCache {
    /// Called with the topics locked for change.
    pub(super) fn outdate(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
}

impl Node {
    /// Grows with every change to the topics.
    pub(crate) fn topics_version(&self) -> u64 {
        self.image.version.load(Ordering::Acquire)
    }

    /// The topics, and which version of them.
    pub(crate) fn topics_image(&self) -> (u64, Arc<TopicsImage>) {
        let mut cached = self.image.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let topics = self.topics();
        // Nobody changes them while they are read here.
        let version = self.topics_version();
        if cached.0 != version {
            let mut image = TopicsImage::default();
            for topic in topics.iter() {
                let partitions = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
                image.insert(
                    topic.name.clone(),
                    TopicImage {
                        id: topic.id,
                        partitions,
                    },
                );
            }
            *cached = (version, Arc::new(image));
        }
        cached.clone()
    }
}
