//! Kafka's small numbers with names.

/// An enum of numbers that Kafka has names for. A number of a newer Kafka is kept as it is.
macro_rules! named_codes {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident: $number:ty { $($(#[$doc:meta])* $variant:ident = $code:literal, $text:literal;)+ }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[$doc])* $variant,)+
            /// What this client does not know.
            Other($number),
        }

        impl $name {
            /// The number that Kafka has for it.
            pub const fn code(self) -> $number {
                match self {
                    $(Self::$variant => $code,)+
                    Self::Other(code) => code,
                }
            }

            /// Finds it by the name that it is displayed with, in any case.
            pub fn parse(text: &str) -> Option<Self> {
                [$((Self::$variant, $text)),+]
                    .into_iter()
                    .find_map(|(value, name)| name.eq_ignore_ascii_case(text).then_some(value))
            }
        }

        impl From<$number> for $name {
            fn from(code: $number) -> Self {
                match code {
                    $($code => Self::$variant,)+
                    other => Self::Other(other),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                match self {
                    $(Self::$variant => f.write_str($text),)+
                    Self::Other(code) => write!(f, "UNKNOWN({code})"),
                }
            }
        }
    };
}
pub(super) use named_codes;
