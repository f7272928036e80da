//! What is known about a key.

use std::fmt;

/// One row of a table: a key, and all that is known about it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Definition {
    pub name: &'static str,
    pub config_type: ConfigType,
    /// As text, the way Kafka prints it; `None` is Kafka's null.
    pub default: Option<&'static str>,
    pub allowed: Allowed,
    pub support: Support,
    pub update: UpdateMode,
    /// For a topic's or a group's key: the broker's keys that give its default, the strongest first.
    pub synonyms: &'static [BrokerSynonym],
    /// Is described only where it is set.
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

/// What a value may be, beyond its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    Any,
    AtLeast(i64),
    Between(i64, i64),
    /// A range, and one value outside of it.
    BetweenOr(i64, i64, i64),
    OneOf(&'static [&'static str]),
    OneOfInAnyCase(&'static [&'static str]),
    /// Each element of a list.
    Each(&'static [&'static str]),
    /// A list of `partition:broker`, or `*` alone.
    ThrottledReplicas,
}

/// What this broker makes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Honoured,
    /// Described, but no other value is accepted.
    DefaultOnly {
        reason: &'static str,
    },
}

/// Whether a broker's key can change while it runs. The keys of topics and groups always can.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateMode {
    ReadOnly,
    PerBroker,
    ClusterWide,
}

/// A key of the broker that gives a topic's or a group's key its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BrokerSynonym {
    pub name: &'static str,
    pub unit: Unit,
}

/// What a broker's value counts, where the topic's value counts milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Same,
    Minutes,
    Hours,
}

impl Definition {
    /// Whether a value of this key is a secret, which no description shows.
    pub const fn is_sensitive(&self) -> bool {
        matches!(self.config_type, ConfigType::Password)
    }

    /// Whether the broker's key can be set while the broker runs.
    pub const fn is_dynamic(&self) -> bool {
        matches!(self.support, Support::Honoured) && !matches!(self.update, UpdateMode::ReadOnly)
    }
}

impl ConfigType {
    /// The number that stands for it in DescribeConfigs.
    pub const fn id(self) -> i8 {
        self as i8
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
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::Between(least, most) => write!(f, "{least} to {most}"),
            Self::BetweenOr(least, most, other) => write!(f, "{least} to {most}, or {other}"),
            Self::OneOf(names) => write!(f, "one of {}", names.join(", ")),
            Self::OneOfInAnyCase(names) => write!(f, "one of {}", names.join(", ").to_lowercase()),
            Self::Each(names) => write!(f, "a list of {}", names.join(", ")),
            Self::ThrottledReplicas => f.write_str("a list of partition:broker, or * for all replicas"),
        }
    }
}

/// Writes a table with one line for each key: name, type, default if there is one, and then what else is to be said,
/// each word a method of [`Definition`] below.
macro_rules! definitions {
    ($($name:literal $config_type:ident $(= $default:literal)? $(, $method:ident $(($argument:expr))?)*;)*) => {
        &[$(
            Definition::new($name, ConfigType::$config_type)$(.default($default))?$(.$method($($argument)?))*
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
            allowed: Allowed::Any,
            support: Support::Honoured,
            update: UpdateMode::ReadOnly,
            synonyms: &[],
            hidden: false,
            documentation: "",
        }
    }

    pub(super) const fn default(mut self, text: &'static str) -> Self {
        self.default = Some(text);
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
        self.support = Support::DefaultOnly { reason };
        self
    }

    pub(super) const fn per_broker(mut self) -> Self {
        self.update = UpdateMode::PerBroker;
        self
    }

    pub(super) const fn cluster_wide(mut self) -> Self {
        self.update = UpdateMode::ClusterWide;
        self
    }

    pub(super) const fn follows(mut self, synonyms: &'static [BrokerSynonym]) -> Self {
        self.synonyms = synonyms;
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

impl Unit {
    /// How many of the topic's units one of the broker's is.
    pub(super) const fn factor(self) -> i64 {
        match self {
            Self::Same => 1,
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
        }
    }
}
