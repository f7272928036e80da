//! Client settings that override those of the file.

use milena_client::config::{ClientKind, Origin};

use super::AppFile;

impl AppFile {
    /// Sets a setting of all clients that know the key, in place of the file's value.
    pub fn override_setting(&mut self, key: &str, value: &str, origin: &Origin) {
        let settings = &mut self.settings;
        for map in [&mut settings.common, &mut settings.consumer, &mut settings.producer] {
            map.remove(key);
        }
        // All clients know the keys of the admin client. A key that no client knows is refused like a key of the file.
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

    /// Returns a setting that the file has for all clients.
    pub fn setting(&self, key: &str) -> Option<&str> {
        self.settings.common.get(key)
    }
}
