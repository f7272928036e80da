//! Rules of the cache and the refresher, and the driver against a real broker.
