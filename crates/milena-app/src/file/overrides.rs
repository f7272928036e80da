//! Settings of the clients that win over those of the file.

use milena_client::config::{ClientKind, Origin};

use super::AppFile;

impl AppFile {
    /// Sets a setting of the clients, for all of them that know it, in the place of what the file has.
    pub fn override_setting(&mut self, key: &str, value: &str, origin: &Origin) {
        let settings = &mut self.settings;
        for map in [&mut settings.common, &mut settings.consumer, &mut settings.producer] {
            map.remove(key);
        }
        // All of them know what the admin client knows; what none knows is refused like a key of the file.
        let (of_consumer, of_producer) = (ClientKind::Consumer.knows(key), ClientKind::Producer.knows(key));
        if ClientKind::Admin.knows(key) || !(of_consumer || of_producer) {
            settings.common.set_from(key, value, origin.clone());
            return;
        }
        if of_consumer {
            settings.consumer.set_from(key, value, origin.clone());
        }
        if of_producer {
            settings.producer.set_from(key, value, origin.clone());
        }
    }

    /// A setting that the file has for all clients.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.common.get(key)
    }
}
