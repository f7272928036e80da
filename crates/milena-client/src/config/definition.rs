//! What is known about a key.

use std::fmt;

/// One row of a table: a key, and all that is known about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Definition {
    pub name: &'static str,
    pub config_type: ConfigType,
    /// As text, the way Kafka prints it; `None` is Kafka's null, or that there is none.
    pub default: Option<&'static str>,
    /// The client cannot do without a value.
    pub required: bool,
    pub allowed: Allowed,
    pub support: Support,
    pub importance: Importance,
    /// Other names that mean the same.
    pub aliases: &'static [Alias],
    /// Where our default is not Kafka's.
    pub deviation: Option<Deviation>,
    /// Kafka does not tell of it.
    pub hidden: bool,
    pub documentation: &'static str,
}

/// The type of a value, as Kafka names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigType {
    Boolean,
    String,
    Int,
    Short,
    Long,
    Double,
    List,
    Class,
    Password,
}

/// What a value may be, beyond its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    Any,
    NotEmpty,
    AtLeast(i64),
    /// From the first to the last, both included.
    Between(i64, i64),
    /// As `Between`, or the third.
    BetweenOr(i64, i64, i64),
    OneOf(&'static [&'static str]),
    OneOfInAnyCase(&'static [&'static str]),
    /// `host:port`, separated by commas.
    Addresses,
    /// What `auto.offset.reset` may be.
    ResetPolicy,
    /// Names or Java classes of assignors.
    Assignors,
    /// The name or the Java class of a deserializer.
    Deserializer,
    /// The name or the Java class of a partitioner.
    Partitioner,
    /// A part of a record, for partitioners.
    PartitionerField,
    /// Several of them.
    PartitionerFields,
    /// Regions and their partitions.
    Regions,
    /// One ASCII character.
    Separator,
    /// What Kafka takes for the name of a topic or of a static member.
    ResourceName,
}

/// What this client makes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Honoured,
    /// Known, but refused with the reason, unless the value is the default or another one that asks for nothing.
    DefaultOnly {
        reason: &'static str,
        also: &'static [&'static str],
    },
}

/// How much depends on a key, in Kafka's opinion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Importance {
    High,
    Medium,
    Low,
}

/// Another name of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Alias {
    pub name: &'static str,
    pub unit: AliasUnit,
}

/// How a value under the other name becomes one of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AliasUnit {
    Same,
    /// Counts 1024 bytes where the key counts bytes.
    Kilobytes,
    /// Zero stands for what the key calls -1.
    ZeroIsMinusOne,
    /// Zero stands for the longest time there is.
    ZeroIsForever,
}

/// Kafka's default where ours is another, and why it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deviation {
    /// `None` if Kafka demands a value.
    pub kafkas_default: Option<&'static str>,
    pub reason: &'static str,
}

impl Definition {
    /// Whether a value of this key is a secret, which no message shows.
    pub const fn is_sensitive(&self) -> bool {
        matches!(self.config_type, ConfigType::Password)
    }
}

impl fmt::Display for ConfigType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Boolean => "true or false",
            Self::String | Self::Class | Self::Password => "text",
            Self::Int => "a whole number of 32 bits",
            Self::Short => "a whole number of 16 bits",
            Self::Long => "a whole number of 64 bits",
            Self::Double => "a number",
            Self::List => "a list separated by commas, without empty elements",
        })
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("anything"),
            Self::NotEmpty => f.write_str("text that is not empty; leave the key out if there is none"),
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::BetweenOr(least, most, also) => write!(f, "{least} to {most}, or {also}"),
            Self::OneOf(names) => write!(f, "one of {}", names.join(", ")),
            Self::OneOfInAnyCase(names) => write!(f, "one of {}", names.join(", ").to_lowercase()),
            Self::Addresses => f.write_str("a list of host:port, as in kafka1:9092,[::1]:9092"),
            Self::ResetPolicy => f.write_str(
                "earliest, latest, none, or by_duration: and an ISO-8601 duration, as in by_duration:P1DT12H",
            ),
            Self::Assignors => f.write_str(
                "a list of range, roundrobin, sticky, cooperative-sticky, or of Kafka's classes of these; \
                 an assignor of your own is given in code",
            ),
            Self::Deserializer => f.write_str(
                "one of string, bytes, i16, i32, i64, f32, f64, bool, uuid, json, void, or Kafka's class of one of \
                 these; a deserializer of your own is given in code",
            ),
            Self::Partitioner => f.write_str(
                "one of consistent, consistent_random, fnv1a, fnv1a_random, murmur2, murmur2_random, random, \
                 round_robin, entity, tenant, region, composite, time_bucket, hot_keys, or Kafka's \
                 RoundRobinPartitioner; another partitioner is given in code",
            ),
            Self::PartitionerField => f.write_str("key, key[0], key[1] and so on, or header:NAME"),
            Self::PartitionerFields => {
                f.write_str("a list of key, key[0], key[1] and so on, or header:NAME, as in header:country,key[0]")
            }
            Self::Regions => f.write_str("a list of region=partition or region=first-last, as in eu=0-3,us=4-11,us=20"),
            Self::Separator => f.write_str("one ASCII character"),
            Self::ResourceName => {
                f.write_str("1 to 249 ASCII letters, digits, dots, underscores and dashes, and neither . nor ..")
            }
        }
    }
}

/// Writes a table with one line for each key: name, type, default if there is one, and then what else is to be said,
/// each word a method of [`Definition`] below.
macro_rules! definitions {
    ($($name:literal $config_type:ident $(= $default:literal)? $(, $method:ident $(($($argument:expr),+))?)*;)*) => {
        &[$(
            Definition::new($name, ConfigType::$config_type)$(.default($default))?$(.$method($($($argument),+)?))*
        ),*]
    };
}
pub(super) use definitions;

/// The words of the tables.
impl Definition {
    pub(super) const fn new(name: &'static str, config_type: ConfigType) -> Self {
        Self {
            name,
            config_type,
            default: None,
            required: false,
            allowed: Allowed::Any,
            support: Support::Honoured,
            importance: Importance::Low,
            aliases: &[],
            deviation: None,
            hidden: false,
            documentation: "",
        }
    }

    pub(super) const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
        self
    }

    pub(super) const fn required(mut self) -> Self {
        self.required = true;
        self
    }

    pub(super) const fn high(mut self) -> Self {
        self.importance = Importance::High;
        self
    }

    pub(super) const fn medium(mut self) -> Self {
        self.importance = Importance::Medium;
        self
    }

    pub(super) const fn at_least(mut self, least: i64) -> Self {
        self.allowed = Allowed::AtLeast(least);
        self
    }

    pub(super) const fn allowed(mut self, allowed: Allowed) -> Self {
        self.allowed = allowed;
        self
    }

    pub(super) const fn default_only(mut self, reason: &'static str) -> Self {
        self.support = Support::DefaultOnly { reason, also: &[] };
        self
    }

    pub(super) const fn default_or(mut self, also: &'static [&'static str], reason: &'static str) -> Self {
        self.support = Support::DefaultOnly { reason, also };
        self
    }

    pub(super) const fn alias(mut self, aliases: &'static [Alias]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(super) const fn kafka_has(mut self, default: &'static str, reason: &'static str) -> Self {
        self.deviation = Some(Deviation {
            kafkas_default: Some(default),
            reason,
        });
        self
    }

    pub(super) const fn kafka_demands_one(mut self, reason: &'static str) -> Self {
        self.deviation = Some(Deviation {
            kafkas_default: None,
            reason,
        });
        self
    }

    pub(super) const fn hidden(mut self) -> Self {
        self.hidden = true;
        self
    }

    pub(super) const fn about(mut self, sentence: &'static str) -> Self {
        self.documentation = sentence;
        self
    }
}

pub(super) const fn same(name: &'static str) -> Alias {
    let unit = AliasUnit::Same;
    Alias { name, unit }
}

pub(super) const fn kilobytes(name: &'static str) -> Alias {
    let unit = AliasUnit::Kilobytes;
    Alias { name, unit }
}

pub(super) const fn zero_is_forever(name: &'static str) -> Alias {
    let unit = AliasUnit::ZeroIsForever;
    Alias { name, unit }
}

pub(super) const fn zero_is_minus_one(name: &'static str) -> Alias {
    let unit = AliasUnit::ZeroIsMinusOne;
    Alias { name, unit }
}
