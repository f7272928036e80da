//! A broker whose clock stands still unless a test moves it.

use std::time::Duration;

use milena_broker::{Broker, Options};
use milena_wire::messages::MetadataRequest;
use tokio::sync::mpsc;

use crate::{
    client::Client,
    running::{local, raw},
};

pub struct Scene {
    pub address: String,
    clock: mpsc::UnboundedSender<Duration>,
}

impl Scene {
    pub fn client(&self) -> Client {
        Client::connect(&self.address)
    }

    /// Lets time pass, and the broker do all that follows: clients that come later are served until then.
    pub fn advance(&self, by: Duration) {
        self.clock.send(by).unwrap();
        self.others_are_served();
    }

    /// Another connection is not kept waiting.
    pub fn others_are_served(&self) {
        let mut other = self.client();
        for _ in 0..20 {
            assert_eq!(other.call(&MetadataRequest::default(), 12).throttle_time_ms, 0);
        }
    }
}

/// Plays a scene against a broker with a topic `letters`.
pub fn play(options: Options, settings: &[(&str, &str)], scene: impl FnOnce(&Scene) + Send + 'static) {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    let mut config = local(dir.path());
    config.extend(raw(settings));
    runtime.block_on(async {
        let broker = Broker::start_with(options, config).await.unwrap();
        let (clock, mut passes) = mpsc::unbounded_channel();
        let address = broker.address().to_string();
        // As long as this runs, the clock does not move on its own.
        let playing = tokio::task::spawn_blocking(move || {
            let set = Scene { address, clock };
            set.client().create_topic("letters", 1, &[]);
            scene(&set);
        });
        while let Some(by) = passes.recv().await {
            tokio::time::advance(by).await;
        }
        playing.await.unwrap();
        broker.shutdown().await;
    });
}
