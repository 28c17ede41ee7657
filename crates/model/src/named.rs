//! Enums whose variants have names.

/// Defines an enum with the name of each variant behind it, an array `ALL` of its variants, and `name`.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $name:ident { $($(#[$of:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$about])*
        $vis enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// All of them, in this order.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}
