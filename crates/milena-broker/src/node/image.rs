//! The image of the topics for the coordinators.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use milena_machines::{TopicImage, TopicsImage};

use super::Node;

/// A cached image of the topics, which is made anew when it is used and outdated.
#[derive(Debug, Default)]
pub(super) struct TopicsCache {
    version: AtomicU64,
    cached: Mutex<(u64, Arc<TopicsImage>)>,
}

impl TopicsCache {
    /// Marks the image as outdated. Called with the topics locked for a change.
    pub(super) fn outdate(&self) {
        self.version.fetch_add(1, Ordering::Release);
    }
}

impl Node {
    /// The version of the topics, which grows with every change.
    pub(crate) fn topics_version(&self) -> u64 {
        self.image.version.load(Ordering::Acquire)
    }

    /// The image of the topics, and its version.
    pub(crate) fn topics_image(&self) -> (u64, Arc<TopicsImage>) {
        let mut cached = self.image.cached.lock().unwrap_or_else(PoisonError::into_inner);
        let topics = self.topics();
        // The read lock keeps the topics from changing meanwhile.
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
