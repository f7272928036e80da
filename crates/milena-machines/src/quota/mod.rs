//! Client quotas: who may use how much of the broker, and for how long a client must pause that uses more.
//!
//! - [`QuotaTable`] has the quotas that administrators set, by entity: it validates changes and answers queries.
//! - [`ClientQuotas`] enforces one kind of quota: it finds the quota of a client, measures its usage, and returns the
//!   throttle time.
//! - [`ConnectionRates`] limits new connections for each address.
//!
//! The arithmetic is Kafka's, so that the same quota has the same effect on both: [`Rate`] over samples of a window for
//! bytes, request time and connections, [`TokenBucket`] for changes of topics.
//!
//! Memory is bounded. Only clients with a quota are measured; one that was idle for an hour is forgotten; beyond a maximum
//! number, further clients share one measurement, so that a client cannot escape its quota by changing its name.

mod clients;
mod connections;
mod keys;
mod limits;
mod rate;
mod sensor;
mod table;
mod token_bucket;

pub use clients::{ClientName, ClientQuotas, ClientUsage, Refusable};
pub use connections::ConnectionRates;
pub use keys::{EntityType, QuotaKey};
pub use limits::{Limits, Tags};
pub use rate::{Rate, Window, throttle_ms};
pub use table::{
    ChangedEntity, EntityName, QuotaAlteration, QuotaEntity, QuotaError, QuotaFilter, QuotaMatch, QuotaOp, QuotaTable,
    RawEntity,
};
pub use token_bucket::TokenBucket;
