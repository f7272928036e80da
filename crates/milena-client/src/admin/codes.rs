//! Numeric codes of the protocol, with Kafka's names.

/// Defines an enum of numeric codes with Kafka's names. An unknown code is kept as a number.
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
            /// A code that this client does not know.
            Other($number),
        }

        impl $name {
            /// The numeric code.
            pub const fn code(self) -> $number {
                match self {
                    $(Self::$variant => $code,)+
                    Self::Other(code) => code,
                }
            }

            /// Parses the displayed name, in any case.
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
