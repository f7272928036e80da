//! The kinds of quotas and of entities, with their names in Kafka's protocol.

use std::fmt;

use super::QuotaError;

/// A kind of quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum QuotaKey {
    /// Bytes per second of Produce requests.
    ProducerByteRate,
    /// Bytes per second of Fetch responses.
    ConsumerByteRate,
    /// Time of one thread for requests, in percent.
    RequestPercentage,
    /// Partitions per second that are created or deleted.
    ControllerMutationRate,
    /// Connections per second from one address.
    ConnectionCreationRate,
}

impl QuotaKey {
    pub const ALL: [Self; 5] = [
        Self::ProducerByteRate,
        Self::ConsumerByteRate,
        Self::RequestPercentage,
        Self::ControllerMutationRate,
        Self::ConnectionCreationRate,
    ];

    /// The kinds for users and client ids.
    pub const OF_CLIENTS: [Self; 4] = [
        Self::ProducerByteRate,
        Self::ConsumerByteRate,
        Self::RequestPercentage,
        Self::ControllerMutationRate,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            Self::ProducerByteRate => "producer_byte_rate",
            Self::ConsumerByteRate => "consumer_byte_rate",
            Self::RequestPercentage => "request_percentage",
            Self::ControllerMutationRate => "controller_mutation_rate",
            Self::ConnectionCreationRate => "connection_creation_rate",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    pub const fn is_of_ip(self) -> bool {
        matches!(self, Self::ConnectionCreationRate)
    }

    /// Checks a value: positive, and within the key's type.
    pub(super) fn check(self, value: f64) -> Result<(), QuotaError> {
        let refuse = |problem: String| Err(QuotaError::invalid(problem));
        let name = self.name();
        if value.is_nan() {
            return refuse(format!("Quota {name} must be a number"));
        }
        if value <= 0.0 {
            return refuse(format!("Quota {name} must be greater than 0"));
        }
        let (type_name, max) = match self {
            Self::ProducerByteRate | Self::ConsumerByteRate => ("LONG", i64::MAX as f64),
            Self::ConnectionCreationRate => ("INT", f64::from(i32::MAX)),
            Self::RequestPercentage | Self::ControllerMutationRate if value.is_infinite() => {
                return refuse(format!("Quota {name} must be finite"));
            }
            Self::RequestPercentage | Self::ControllerMutationRate => return Ok(()),
        };
        if value > max {
            return refuse(format!("Proposed value for {name} is too large for a {type_name}."));
        }
        if (value % 1.0).abs() > 1e-6 {
            return refuse(format!("{name} cannot be a fractional value."));
        }
        Ok(())
    }
}

impl fmt::Display for QuotaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A kind of entity that quotas are set for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntityType {
    User,
    ClientId,
    Ip,
}

impl EntityType {
    pub const ALL: [Self; 3] = [Self::User, Self::ClientId, Self::Ip];

    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ClientId => "client-id",
            Self::Ip => "ip",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|entity| entity.name() == name)
    }
}
