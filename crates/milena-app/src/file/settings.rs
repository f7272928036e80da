//! Client settings of a file, checked by the clients themselves.

use milena_client::config::{AdminConfig, ConfigError, ConfigErrors, ConsumerConfig, Origin, ProducerConfig};

use super::{FileError, LocatedError, source::Source};
use crate::{error::SettingErrors, route::Delivery, settings::Settings};

/// Returns errors of unknown keys and invalid values. A missing key may still come from the command line.
pub(super) fn errors(settings: &Settings, source: &Source) -> Vec<LocatedError> {
    let mut all = SettingErrors::default();
    let mut refused = vec![];
    let mut check = |checked: Result<(), ConfigErrors>| {
        if let Err(errors) = checked {
            all.extend(&errors);
        }
    };
    // The delivery guarantee adds no settings that a file could get wrong.
    match settings.consumer(Delivery::AtLeastOnce, "group") {
        Ok(consumer) => check(ConsumerConfig::resolve(&consumer).map(drop)),
        Err(error) => refused.push(error.to_string()),
    }
    match settings.producer(Delivery::AtLeastOnce) {
        Ok(producer) => check(ProducerConfig::resolve(&producer).map(drop)),
        Err(error) => refused.push(error.to_string()),
    }
    check(AdminConfig::resolve(&settings.common).map(drop));
    let refused = refused.into_iter().map(|text| LocatedError {
        line: source.line("kafka"),
        error: FileError::Setting(text),
    });
    let located = all.0.iter().filter_map(locate);
    refused.chain(located).collect()
}

fn locate(error: &ConfigError) -> Option<LocatedError> {
    let origin = match error {
        ConfigError::UnknownKey { origin, .. }
        | ConfigError::OtherOwner { origin, .. }
        | ConfigError::Invalid { origin, .. }
        | ConfigError::Unsupported { origin, .. } => Some(origin),
        ConfigError::Missing { .. } => return None,
        _ => None,
    };
    // The message has the line already.
    let text = match origin {
        Some(origin) => error.to_string().replace(&format!(" ({origin})"), ""),
        None => error.to_string(),
    };
    Some(LocatedError {
        line: origin.and_then(line),
        error: FileError::Setting(text),
    })
}

fn line(origin: &Origin) -> Option<usize> {
    match origin {
        Origin::File { line, .. } => Some(*line),
        // A text without a file name.
        Origin::Named(name) => name.strip_prefix("line ")?.parse().ok(),
        Origin::Code | Origin::Request => None,
    }
}
