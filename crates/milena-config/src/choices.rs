//! Names of the variants of enums, written once.

/// Gives an enum without fields its names in configurations.
///
/// The enum gets `ALL`, `NAMES` (in the same order), `ACCEPTED` (names and other spellings), `name()`, `Display` and
/// [`FromText`](crate::FromText). A variant that is missing here does not compile. Other spellings follow the name after
/// `|`. With `[any case]` after the enum, case does not matter. With `(classes in "java.package.")`, that package before
/// a name is ignored. A variant after `unlisted` has a name to be shown, but no
/// configuration can name it.
///
/// ```
/// use milena_config::{FromText, choices};
///
/// #[derive(Debug, Clone, Copy, PartialEq)]
/// enum Acks { All, None, Leader }
/// choices! { Acks { All = "all" | "-1", None = "0", Leader = "1" } }
///
/// assert_eq!(Acks::NAMES, ["all", "0", "1"]);
/// assert_eq!(Acks::ACCEPTED, ["all", "-1", "0", "1"]);
/// assert_eq!(Acks::from_text("-1"), Some(Acks::All));
/// assert_eq!(Acks::Leader.to_string(), "1");
/// ```
#[macro_export]
macro_rules! choices {
    (
        $enum:ident $([$any:ident case])? $((classes in $package:literal))? { $($variant:ident = $name:literal $(| $other:literal)*),+ $(,)? }
        $(unlisted { $($hidden:ident = $shown:literal),+ $(,)? })?
    ) => {
        #[allow(dead_code, unreachable_pub, reason = "not every enum is public or needs every list")]
        impl $enum {
            /// All variants that a configuration can name.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The names of all variants, in the order of [`ALL`](Self::ALL).
            pub const NAMES: &'static [&'static str] = &[$($name),+];
            /// The names and other spellings that a configuration can use.
            pub const ACCEPTED: &'static [&'static str] = &[$($name $(, $other)*),+];

            /// The name in configurations.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                    $($(Self::$hidden => $shown,)+)?
                }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl $crate::FromText for $enum {
            fn from_text(text: &str) -> Option<Self> {
                $(
                    let $any = text.to_ascii_lowercase();
                    let text = $any.as_str();
                )?
                $(let text = $crate::class_name(text, $package);)?
                match text {
                    $($name $(| $other)* => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }
    };
}

/// The name of a Java class without its package, for [`choices!`].
#[doc(hidden)]
pub fn class_name<'a>(text: &'a str, package: &str) -> &'a str {
    // `Class.toString` puts the word before the name.
    let text = text.strip_prefix("class ").unwrap_or(text);
    text.strip_prefix(package).unwrap_or(text)
}

/// The names of an enum of another crate, as a constant array: `names_of!(Codec)` needs `Codec::ALL`, an array or slice,
/// and a `const fn name(self) -> &'static str`.
#[macro_export]
macro_rules! names_of {
    ($enum:ty) => {{
        const COUNT: usize = <$enum>::ALL.len();
        #[allow(clippy::indexing_slicing, reason = "evaluated at compile time")]
        const NAMES: [&str; COUNT] = {
            let mut names = [""; COUNT];
            let mut index = 0;
            while index < COUNT {
                names[index] = <$enum>::ALL[index].name();
                index += 1;
            }
            names
        };
        &NAMES
    }};
}

#[cfg(test)]
mod tests {
    use crate::FromText as _;

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Fruit {
        Apple,
        Pear,
        Secret,
    }
    choices! { Fruit [any case] { Apple = "apple" | "malus", Pear = "pear" } unlisted { Secret = "(secret)" } }

    #[test]
    fn names_come_from_the_enum() {
        assert_eq!(Fruit::ALL, [Fruit::Apple, Fruit::Pear]);
        assert_eq!(Fruit::NAMES, ["apple", "pear"]);
        assert_eq!(Fruit::ACCEPTED, ["apple", "malus", "pear"]);
        assert_eq!(*names_of!(Fruit), ["apple", "pear"]);
        assert_eq!(Fruit::from_text("PEAR"), Some(Fruit::Pear));
        assert_eq!(Fruit::from_text("Malus"), Some(Fruit::Apple));
        assert_eq!(Fruit::from_text("(secret)"), None);
        assert_eq!(Fruit::Secret.to_string(), "(secret)");
    }
}
