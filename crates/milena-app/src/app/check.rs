//! Checks of an application before it starts.

use std::collections::BTreeSet;

use milena_client::config::{AdminConfig, ConfigErrors, ConsumerConfig, ProducerConfig};

use super::App;
use crate::{
    driver::{Declared, check_policies},
    error::{SettingErrors, StartError},
    handler::Available,
    route::{Delivery, Route},
};

impl App {
    /// Checks handlers, policies and client settings, without a cluster.
    pub fn check(&self) -> Result<(), StartError> {
        if let Some(problem) = self.problems.first() {
            return Err(problem.clone().into());
        }
        if let Some(topic) = self.declared.keys().next() {
            let topic = topic.clone();
            return Err(StartError::NoHandlerFor { topic });
        }
        if self.routes.is_empty() {
            return Err(StartError::NoHandler);
        }
        if self.settings.group.is_empty() {
            return Err(StartError::NoGroup);
        }
        self.check_routes()?;
        self.check_stored_offsets()?;
        let deliveries: BTreeSet<Delivery> = self.routes.iter().map(|route| route.delivery).collect();
        for delivery in &deliveries {
            let routes = self.routes.iter().filter(|route| route.delivery == *delivery);
            let routes: Vec<_> = routes.cloned().collect();
            check_policies(&Declared {
                delivery: *delivery,
                routes: &routes,
                limits: &self.limits,
                breakers: &self.breakers,
                bulkheads: &self.bulkheads,
                metadata_reserved: 0,
            })?;
        }
        self.check_settings(&deliveries)
    }

    fn check_routes(&self) -> Result<(), StartError> {
        for (place, route) in self.routes.iter().enumerate() {
            let name = route.topics.text();
            let mut later = self.routes.iter().skip(place + 1);
            if later.any(|other| other.topics.text() == name) {
                return Err(StartError::TwoHandlers { topic: name.to_owned() });
            }
            let available = Available {
                states: &self.states,
                delivery: route.delivery,
            };
            let checked = route.handler.check(&available);
            checked.map_err(|source| StartError::State {
                topics: name.to_owned(),
                source,
            })?;
        }
        Ok(())
    }

    /// A key that several clients refuse is reported once.
    fn check_settings(&self, deliveries: &BTreeSet<Delivery>) -> Result<(), StartError> {
        let mut all = SettingErrors::default();
        let mut check = |checked: Result<(), ConfigErrors>| {
            if let Err(errors) = checked {
                all.extend(&errors);
            }
        };
        for delivery in deliveries {
            let consumer = self.settings.consumer(*delivery, &self.settings.group)?;
            check(ConsumerConfig::resolve(&consumer).map(drop));
            let producer = self.settings.producer(*delivery)?;
            check(ProducerConfig::resolve(&producer).map(drop));
        }
        check(AdminConfig::resolve(&self.settings.common).map(drop));
        if all.0.is_empty() {
            Ok(())
        } else {
            Err(StartError::Settings(all))
        }
    }
}

/// Refuses deliveries that a replay cannot have.
pub(super) fn check_replay(delivery: Delivery, routes: &[Route]) -> Result<(), StartError> {
    let topics = || {
        let topics: Vec<_> = routes.iter().map(|route| route.topics.text()).collect();
        topics.join(", ")
    };
    match delivery {
        Delivery::ExactlyOnce => Err(StartError::ReplayExactlyOnce { topics: topics() }),
        Delivery::StoredOffsets => Err(StartError::ReplayStoredOffsets { topics: topics() }),
        Delivery::AtMostOnce | Delivery::AtLeastOnce => Ok(()),
    }
}
