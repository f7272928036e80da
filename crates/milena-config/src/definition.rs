//! The definition of a key: one row of a table.

use std::fmt;

use crate::Allowed;

/// A key and everything that is known about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    pub name: &'static str,
    pub config_type: ConfigType,
    /// As text, the way Kafka prints it; `None` is Kafka's null, or no default at all.
    pub default: Option<&'static str>,
    /// Whether a configuration without a value is refused.
    pub required: bool,
    pub allowed: Allowed,
    pub support: Support,
    pub importance: Importance,
    /// Whether the key can change at run time. Only broker keys need it: those of topics and groups always can.
    pub update: UpdateMode,
    /// Other names of the key, such as librdkafka's.
    pub aliases: &'static [Alias],
    /// Other names of values: the first of each pair means the second.
    pub value_aliases: &'static [(&'static str, &'static str)],
    /// Broker keys that give the default of a topic's or group's key, the strongest first.
    pub synonyms: &'static [Alias],
    /// Present if our default differs from Kafka's.
    pub deviation: Option<Deviation>,
    /// Whether the key is left out of documents, suggestions and descriptions, as in Kafka.
    pub hidden: bool,
    pub documentation: &'static str,
}

/// The type of a value, with the ids of DescribeConfigs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigType {
    Boolean = 1,
    String = 2,
    Int = 3,
    Short = 4,
    Long = 5,
    Double = 6,
    List = 7,
    Class = 8,
    Password = 9,
}

/// Whether a key has an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Honoured,
    /// Known, but only the default is accepted, or a value of `also`, which asks for nothing else.
    DefaultOnly {
        reason: &'static str,
        also: &'static [&'static str],
    },
    /// Known and of no use here. A value is accepted with a note, so that files for Java can be shared.
    Ignored {
        reason: &'static str,
    },
}

/// The importance that Kafka's documentation gives a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    High,
    Medium,
    Low,
}

/// Whether a key can change while the process runs, and for which brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    ReadOnly,
    PerBroker,
    ClusterWide,
}

/// Another key with the same meaning, and the conversion of its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    pub name: &'static str,
    pub unit: Unit,
}

/// The unit of a value under an [`Alias`], where that is not the unit of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Same,
    /// 1024 bytes, for a key in bytes.
    Kilobytes,
    /// Minutes, for a key in milliseconds.
    Minutes,
    /// Hours, for a key in milliseconds.
    Hours,
    /// Zero means -1.
    ZeroIsMinusOne,
    /// Zero means the largest integer of 32 bits.
    ZeroIsForever,
}

/// Kafka's default where ours is another, and the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deviation {
    /// `None` if Kafka requires a value.
    pub kafkas_default: Option<&'static str>,
    pub reason: &'static str,
}

impl Definition {
    /// Whether values of this key are secrets, which no message or description shows.
    pub const fn is_sensitive(&self) -> bool {
        matches!(self.config_type, ConfigType::Password)
    }

    /// Whether a broker's key can be set at run time.
    pub const fn is_dynamic(&self) -> bool {
        self.is_honoured() && !matches!(self.update, UpdateMode::ReadOnly)
    }

    pub const fn is_honoured(&self) -> bool {
        matches!(self.support, Support::Honoured)
    }
}

impl ConfigType {
    /// The id in DescribeConfigs.
    pub const fn id(self) -> i8 {
        self as i8
    }
}

impl Unit {
    /// Converts a value under the alias to the unit of the key; `None` if it is no number or too large.
    pub fn convert(self, text: &str) -> Option<String> {
        let trimmed = crate::trim(text);
        match self {
            Self::ZeroIsMinusOne if trimmed == "0" => Some("-1".to_owned()),
            Self::ZeroIsForever if trimmed == "0" => Some(i32::MAX.to_string()),
            Self::Same | Self::ZeroIsMinusOne | Self::ZeroIsForever => Some(text.to_owned()),
            Self::Kilobytes | Self::Minutes | Self::Hours => {
                let number: i64 = trimmed.parse().ok()?;
                number.checked_mul(self.factor()).map(|number| number.to_string())
            }
        }
    }

    /// How many units of the key are one unit of the alias.
    pub const fn factor(self) -> i64 {
        match self {
            Self::Same | Self::ZeroIsMinusOne | Self::ZeroIsForever => 1,
            Self::Kilobytes => 1024,
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
        }
    }
}

impl fmt::Display for ConfigType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "true or false",
            Self::String | Self::Class | Self::Password => "text",
            Self::Int => "a 32-bit integer",
            Self::Short => "a 16-bit integer",
            Self::Long => "a 64-bit integer",
            Self::Double => "a number",
            Self::List => "a comma-separated list without empty elements",
        })
    }
}

impl fmt::Display for Importance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        })
    }
}

/// Writes a table of [`Definition`]s, one row for each key.
///
/// A row is the name, the type, the default if there is one, and then any methods of [`Definition`]:
///
/// ```
/// use milena_config::{Definition, definitions};
///
/// const KEYS: &[Definition] = definitions! {
///     "fetch.min.bytes" Int = "1", high, at_least(0), about("Minimum size of a fetch response.");
///     "group.id" String, about("Name of the consumer group.");
/// };
/// assert_eq!(KEYS[0].default, Some("1"));
/// ```
#[macro_export]
macro_rules! definitions {
    ($($name:literal $config_type:ident $(= $default:literal)? $(, $method:ident $(($($argument:expr),+))?)*;)*) => {
        &[$(
            $crate::Definition::new($name, $crate::ConfigType::$config_type)
                $(.default($default))?
                $(.$method($($($argument),+)?))*
        ),*]
    };
}

/// The words of [`definitions!`].
impl Definition {
    pub const fn new(name: &'static str, config_type: ConfigType) -> Self {
        Self {
            name,
            config_type,
            default: None,
            required: false,
            allowed: Allowed::Any,
            support: Support::Honoured,
            importance: Importance::Low,
            update: UpdateMode::ReadOnly,
            aliases: &[],
            value_aliases: &[],
            synonyms: &[],
            deviation: None,
            hidden: false,
            documentation: "",
        }
    }

    #[must_use]
    pub const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    #[must_use]
    pub const fn high(mut self) -> Self {
        self.importance = Importance::High;
        self
    }

    #[must_use]
    pub const fn medium(mut self) -> Self {
        self.importance = Importance::Medium;
        self
    }

    #[must_use]
    pub const fn at_least(mut self, min: i64) -> Self {
        self.allowed = Allowed::AtLeast(min);
        self
    }

    #[must_use]
    pub const fn allowed(mut self, allowed: Allowed) -> Self {
        self.allowed = allowed;
        self
    }

    #[must_use]
    pub const fn default_only(self, reason: &'static str) -> Self {
        self.default_or(&[], reason)
    }

    /// As [`default_only`](Self::default_only), but also accepts other values that ask for nothing.
    #[must_use]
    pub const fn default_or(mut self, also: &'static [&'static str], reason: &'static str) -> Self {
        self.support = Support::DefaultOnly { reason, also };
        self
    }

    /// Accepts any value with a note that it has no effect.
    #[must_use]
    pub const fn ignored(mut self, reason: &'static str) -> Self {
        self.support = Support::Ignored { reason };
        self
    }

    #[must_use]
    pub const fn per_broker(mut self) -> Self {
        self.update = UpdateMode::PerBroker;
        self
    }

    #[must_use]
    pub const fn cluster_wide(mut self) -> Self {
        self.update = UpdateMode::ClusterWide;
        self
    }

    #[must_use]
    pub const fn alias(mut self, aliases: &'static [Alias]) -> Self {
        self.aliases = aliases;
        self
    }

    #[must_use]
    pub const fn value_aliases(mut self, pairs: &'static [(&'static str, &'static str)]) -> Self {
        self.value_aliases = pairs;
        self
    }

    /// Names the broker keys that give the default, the strongest first.
    #[must_use]
    pub const fn follows(mut self, synonyms: &'static [Alias]) -> Self {
        self.synonyms = synonyms;
        self
    }

    #[must_use]
    pub const fn kafka_has(mut self, default: &'static str, reason: &'static str) -> Self {
        self.deviation = Some(Deviation {
            kafkas_default: Some(default),
            reason,
        });
        self
    }

    #[must_use]
    pub const fn kafka_requires(mut self, reason: &'static str) -> Self {
        self.deviation = Some(Deviation {
            kafkas_default: None,
            reason,
        });
        self
    }

    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    #[must_use]
    pub const fn about(mut self, sentence: &'static str) -> Self {
        self.documentation = sentence;
        self
    }
}

/// Aliases by unit, for tables.
impl Alias {
    pub const fn same(name: &'static str) -> Self {
        Self { name, unit: Unit::Same }
    }

    pub const fn kilobytes(name: &'static str) -> Self {
        let unit = Unit::Kilobytes;
        Self { name, unit }
    }

    pub const fn minutes(name: &'static str) -> Self {
        let unit = Unit::Minutes;
        Self { name, unit }
    }

    pub const fn hours(name: &'static str) -> Self {
        let unit = Unit::Hours;
        Self { name, unit }
    }

    pub const fn zero_is_forever(name: &'static str) -> Self {
        let unit = Unit::ZeroIsForever;
        Self { name, unit }
    }

    pub const fn zero_is_minus_one(name: &'static str) -> Self {
        let unit = Unit::ZeroIsMinusOne;
        Self { name, unit }
    }
}
