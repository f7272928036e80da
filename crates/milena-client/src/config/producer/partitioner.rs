//! Parameters of the partitioners that a configuration can name.

use milena_config::{ConfigValue, FromConfigValue as _, FromText, Resolver, Validator};

use crate::producer::partition::Field;

/// The maximum number of partitions of a region. No topic has so many.
const REGION_PARTITIONS_MAX: i32 = 1_000_000;

/// The keys `milena.partitioner.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionerParameters {
    /// `milena.partitioner.field`
    pub field: Option<Field>,
    /// `milena.partitioner.fields`: not empty with `partitioner.class=composite`.
    pub fields: Vec<Field>,
    /// `milena.partitioner.separator`: an ASCII character.
    pub separator: u8,
    /// `milena.partitioner.spread`: at least 1.
    pub spread: Option<u32>,
    /// `milena.partitioner.regions`: not empty with `partitioner.class=region`.
    pub regions: Vec<RegionPartitions>,
    /// `milena.partitioner.bucket.ms`: at least 1.
    pub bucket_ms: i64,
    /// `milena.partitioner.hot.records.per.minute`: at least 1.
    pub hot_records_per_minute: i64,
}

/// A range of partitions of a region. A region may have several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionPartitions {
    pub region: String,
    pub first: i32,
    /// Included; not less than `first`.
    pub last: i32,
}

impl PartitionerParameters {
    pub(super) fn read(resolver: &Resolver) -> Self {
        let separator = resolver.text("milena.partitioner.separator");
        let separator = separator.and_then(|text| text.bytes().next()).unwrap_or(b':');
        let with_separator = |field| match field {
            Field::KeyPart { index, .. } => Field::KeyPart { separator, index },
            field => field,
        };
        let fields: Vec<Field> = resolver.read("milena.partitioner.fields");
        Self {
            field: resolver
                .read_optional::<Field>("milena.partitioner.field")
                .map(with_separator),
            fields: fields.into_iter().map(with_separator).collect(),
            separator,
            spread: resolver.read_optional("milena.partitioner.spread"),
            regions: resolver.read("milena.partitioner.regions"),
            bucket_ms: resolver.read("milena.partitioner.bucket.ms"),
            hot_records_per_minute: resolver.read("milena.partitioner.hot.records.per.minute"),
        }
    }
}

/// Parses `key`, `key[0]` or `header:NAME`. The separator of key parts is set later.
impl FromText for Field {
    fn from_text(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("header:") {
            return (!name.is_empty()).then(|| Self::header(name));
        }
        match text.strip_prefix("key")? {
            "" => Some(Self::Key),
            rest => {
                let index = rest.strip_prefix('[')?.strip_suffix(']')?;
                let index = index.parse().ok()?;
                Some(Self::KeyPart { separator: b':', index })
            }
        }
    }
}

/// Parses `eu=4` or `eu=0-3`.
impl FromText for RegionPartitions {
    fn from_text(text: &str) -> Option<Self> {
        let (region, partitions) = text.split_once('=')?;
        let (first, last) = partitions.split_once('-').unwrap_or((partitions, partitions));
        let (first, last): (i32, i32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let region = region.trim().to_owned();
        let fits = !region.is_empty() && (0..=last).contains(&first) && last < REGION_PARTITIONS_MAX;
        fits.then_some(Self { region, first, last })
    }
}

pub(super) const FIELD: Validator = Validator {
    accepts: |value| Field::from_config_value(value).is_some(),
    expected: || "key, key[0], key[1] and so on, or header:NAME".to_owned(),
    summary: || "key, key[N], header:NAME".to_owned(),
};

pub(super) const FIELDS: Validator = Validator {
    accepts: |value| Vec::<Field>::from_config_value(value).is_some(),
    expected: || "a list of key, key[0], key[1] and so on, or header:NAME, as in header:country,key[0]".to_owned(),
    summary: || "list of key, key[N], header:NAME".to_owned(),
};

pub(super) const REGIONS: Validator = Validator {
    accepts: |value| Vec::<RegionPartitions>::from_config_value(value).is_some(),
    expected: || "a list of region=partition or region=first-last, as in eu=0-3,us=4-11,us=20".to_owned(),
    summary: || "list of REGION=PARTITION, REGION=FIRST-LAST".to_owned(),
};

pub(super) const SEPARATOR: Validator = Validator {
    accepts: |value| matches!(value, ConfigValue::Text(text) if matches!(text.as_bytes(), [byte] if byte.is_ascii())),
    expected: || "one ASCII character".to_owned(),
    summary: || "one ASCII character".to_owned(),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_regions_are_parsed() {
        let part = |index| Field::KeyPart { separator: b':', index };
        for (text, field) in [
            ("key", Some(Field::Key)),
            ("key[0]", Some(part(0))),
            ("key[12]", Some(part(12))),
            ("header:country", Some(Field::header("country"))),
            ("header:", None),
            ("value", None),
            ("key[x]", None),
            ("key0", None),
        ] {
            assert_eq!(Field::from_text(text), field, "{text}");
        }
        let region = |first, last| RegionPartitions {
            region: "eu".to_owned(),
            first,
            last,
        };
        for (text, expected) in [
            ("eu=4", Some(region(4, 4))),
            ("eu=0-3", Some(region(0, 3))),
            ("eu=3-0", None),
            ("eu=-1", None),
            ("eu", None),
            ("=1", None),
            ("eu=0-2000000000", None),
        ] {
            assert_eq!(RegionPartitions::from_text(text), expected, "{text}");
        }
    }
}
