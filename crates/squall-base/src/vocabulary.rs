//! Enumerations of words: each variant has a name, by which recipes, records and messages refer to it.
//!
//! Names are written out and do not follow from the variants, because files keep them when a variant is renamed. The names
//! that serde gives a variant are attributes of the enumeration, because JSON may have others.

/// Declares an enumeration with a name for each variant: the enumeration itself, which prints as the name, `ALL`, `name`
/// and `from_name`. The variants are numbered from 0 in the order of `ALL`. It must be `Copy`.
///
/// ```
/// squall_base::words! {
///     /// What a lamp does.
///     #[derive(Clone, Copy)]
///     pub enum Lamp {
///         /// It shines.
///         Shining = "on",
///         /// It is dark.
///         Dark = "off",
///     }
/// }
///
/// assert_eq!(Lamp::ALL.map(Lamp::name), ["on", "off"]);
/// assert_eq!(Lamp::from_name("off").map(|lamp| lamp.to_string()), Some("off".to_owned()));
/// assert!(Lamp::from_name("dim").is_none());
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$attribute:meta])*
        pub enum $Words:ident {
            $(
                $(#[$word_attribute:meta])*
                $Word:ident = $name:literal,
            )+
        }
    ) => {
        $(#[$attribute])*
        pub enum $Words {
            $(
                $(#[$word_attribute])*
                $Word,
            )+
        }

        impl $Words {
            /// Every variant, in the order of this enum.
            pub const ALL: [$Words; [$($name),+].len()] = [$($Words::$Word),+];

            /// Its name in recipes and in records.
            pub const fn name(self) -> &'static str {
                match self {
                    $($Words::$Word => $name,)+
                }
            }

            /// The variant with this name.
            pub fn from_name(name: &str) -> Option<$Words> {
                $Words::ALL.into_iter().find(|word| word.name() == name)
            }
        }

        impl ::std::fmt::Display for $Words {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
