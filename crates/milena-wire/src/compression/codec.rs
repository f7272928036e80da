//! Codecs and their levels.

use std::fmt;
use std::str::FromStr;

use super::CompressError;

/// Kafka's compression codecs; the ids are bits 0 to 2 of a batch's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Codec {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Codec {
    pub const ALL: [Self; 5] = [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd];

    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|codec| codec.id() == id)
    }

    pub fn id(self) -> u8 {
        self as u8
    }

    /// The name that `compression.type` has in Kafka's configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Codec {
    type Err = UnknownCodec;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|codec| codec.name() == name)
            .ok_or_else(|| UnknownCodec { name: name.to_owned() })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown codec {name:?}; the codecs are {}", Codec::ALL.map(Codec::name).join(", "))]
pub struct UnknownCodec {
    pub name: String,
}

/// A codec with a valid level.
///
/// The levels are Kafka's: gzip 1 to 9 or -1 for its default, lz4 1 to 17,
/// zstd -131072 to 22. Every level of lz4 gives the same fast compressor: the
/// library behind it has no other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression {
    codec: Codec,
    level: Option<i32>,
}

impl Compression {
    pub fn with_level(codec: Codec, level: i32) -> Result<Self, CompressError> {
        let (valid, allowed) = match codec {
            Codec::None | Codec::Snappy => return Err(CompressError::NoLevels { codec, level }),
            Codec::Gzip => (level == -1 || (1..=9).contains(&level), "1 to 9, or -1"),
            Codec::Lz4 => ((1..=17).contains(&level), "1 to 17"),
            Codec::Zstd => ((-131_072..=22).contains(&level), "-131072 to 22"),
        };
        if !valid {
            return Err(CompressError::LevelOutOfRange { codec, level, allowed });
        }
        Ok(Self {
            codec,
            level: Some(level),
        })
    }

    pub fn codec(self) -> Codec {
        self.codec
    }

    /// `None` for the codecs without levels.
    pub fn level(self) -> Option<i32> {
        self.level
    }
}

impl Default for Compression {
    fn default() -> Self {
        Self::from(Codec::None)
    }
}

/// The codec with Kafka's default level.
impl From<Codec> for Compression {
    fn from(codec: Codec) -> Self {
        let level = match codec {
            Codec::None | Codec::Snappy => None,
            Codec::Gzip => Some(-1),
            Codec::Lz4 => Some(9),
            Codec::Zstd => Some(3),
        };
        Self { codec, level }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_go_both_ways() {
        for (id, codec) in (0..).zip(Codec::ALL) {
            assert_eq!(codec.id(), id);
            assert_eq!(Codec::from_id(id), Some(codec));
            assert_eq!(codec.to_string().parse(), Ok(codec));
        }
        assert_eq!(Codec::from_id(5), None);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "brotli".parse::<Codec>().unwrap_err().to_string();
        assert!(error.contains("brotli"));
        for codec in Codec::ALL {
            assert!(error.contains(codec.name()), "{error}");
        }
    }

    #[test]
    fn levels_are_checked() {
        for (codec, valid, invalid) in [
            (Codec::Gzip, &[-1, 1, 9][..], &[-2, 0, 10][..]),
            (Codec::Lz4, &[1, 17], &[-1, 0, 18]),
            (Codec::Zstd, &[-131_072, 0, 22], &[-131_073, 23]),
        ] {
            for &level in valid {
                let compression = Compression::with_level(codec, level).unwrap();
                assert_eq!(compression.level(), Some(level));
            }
            for &level in invalid {
                assert!(matches!(
                    Compression::with_level(codec, level),
                    Err(CompressError::LevelOutOfRange { .. })
                ));
            }
        }
        for codec in [Codec::None, Codec::Snappy] {
            assert!(matches!(
                Compression::with_level(codec, 1),
                Err(CompressError::NoLevels { .. })
            ));
        }
    }

    #[test]
    fn default_levels_are_valid() {
        assert_eq!(Compression::default().codec(), Codec::None);
        for codec in Codec::ALL {
            let compression = Compression::from(codec);
            if let Some(level) = compression.level() {
                assert_eq!(Compression::with_level(codec, level), Ok(compression));
            }
        }
    }
}
