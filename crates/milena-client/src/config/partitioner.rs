//! The parameters of partitioners that a configuration names.

use super::resolve::Resolver;
use crate::producer::partition::Field;

/// A region may not name more partitions than this; no topic has so many.
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

/// Partitions of a region. A region may have several runs of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionPartitions {
    pub region: String,
    pub first: i32,
    /// Included; not less than `first`.
    pub last: i32,
}

impl PartitionerParameters {
    pub(super) fn read(settings: &Resolver) -> Self {
        let separator = settings.text("milena.partitioner.separator");
        let separator = separator.and_then(|text| text.bytes().next()).unwrap_or(b':');
        let with_separator = |field| match field {
            Field::KeyPart { index, .. } => Field::KeyPart { separator, index },
            field => field,
        };
        let fields: Vec<Field> = settings.read_optional("milena.partitioner.fields").unwrap_or_default();
        Self {
            field: settings
                .read_optional::<Field>("milena.partitioner.field")
                .map(with_separator),
            fields: fields.into_iter().map(with_separator).collect(),
            separator,
            spread: settings.read_optional("milena.partitioner.spread"),
            regions: settings.read_optional("milena.partitioner.regions").unwrap_or_default(),
            bucket_ms: settings.read("milena.partitioner.bucket.ms"),
            hot_records_per_minute: settings.read("milena.partitioner.hot.records.per.minute"),
        }
    }
}

impl Field {
    /// Reads `key`, `key[0]` or `header:NAME`. The separator of parts is set later.
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("header:") {
            return (!name.is_empty()).then(|| Self::header(name));
        }
        match text.strip_prefix("key")? {
            "" => Some(Self::Key),
            rest => {
                let place = rest.strip_prefix('[')?.strip_suffix(']')?;
                let place = place.parse().ok()?;
                Some(Self::KeyPart {
                    separator: b':',
                    index: place,
                })
            }
        }
    }
}

impl RegionPartitions {
    /// Reads `eu=4` or `eu=0-3`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (region, partitions) = text.split_once('=')?;
        let (first, last) = partitions.split_once('-').unwrap_or((partitions, partitions));
        let (first, last): (i32, i32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let region = region.trim().to_owned();
        let fits = !region.is_empty() && (0..=last).contains(&first) && last < REGION_PARTITIONS_MAX;
        fits.then_some(Self { region, first, last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_regions_are_read() {
        let part = |place| Field::KeyPart {
            separator: b':',
            index: place,
        };
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
            assert_eq!(Field::parse(text), field, "{text}");
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
            assert_eq!(RegionPartitions::parse(text), expected, "{text}");
        }
    }
}
