//! `Debug` of trait objects.

/// Implements `Debug` for objects of a trait, as the name of the trait. As a supertrait, `Debug` would link the formatting of
/// every implementation, and of everything in it, into the program, although nothing calls it.
#[macro_export]
macro_rules! opaque_debug {
    ($name:ident) => {
        impl ::std::fmt::Debug for dyn $name + '_ {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}

#[cfg(test)]
mod tests {
    trait Port {}

    impl Port for u8 {}

    opaque_debug!(Port);

    #[test]
    fn an_object_is_shown_as_its_trait() {
        let port: Box<dyn Port> = Box::new(1);
        assert_eq!(format!("{port:?}"), "Port");
    }
}
