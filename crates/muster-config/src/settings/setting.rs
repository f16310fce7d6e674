//! One key of the configuration.

use std::collections::BTreeMap;

use muster_core::{
    fields::{EMPTY, FALSE, FieldDefault, FieldType, NONE},
    secret::Secret,
    secret_text::without_embedded,
    value::Value,
};
use serde_json::Value as Json;

use super::TrustedIssuer;
use crate::{reader::Reader, yaml::Node};

pub use muster_core::secret_text::REDACTED;

/// The value of a key.
pub(super) trait Setting: Sized + Clone + PartialEq {
    /// The type of defaults in [`section!`].
    type Literal;

    /// Its type in the field table.
    const TYPE: FieldType;

    /// Its default where the section gives none.
    const UNSET: FieldDefault;

    /// The value of a default in [`section!`].
    fn literal(literal: Self::Literal) -> Self;

    /// Reads the value that replaces `self`.
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self>;

    /// Its form in the file.
    fn value(&self) -> Value;

    /// Its form in replies, with secrets redacted.
    fn view(&self) -> Json;

    /// The part of it that differs from the defaults, in its form in the file.
    fn changed(&self) -> Value {
        self.value()
    }
}

/// A section of the file: a struct and its field table, from one row for each key. The doc comment of a
/// row is the meaning of the field.
macro_rules! section {
    (@default $type:ty) => { <$type as Default>::default() };
    (@default $type:ty, $default:literal) => {
        <$type as $crate::settings::setting::Setting>::literal($default)
    };
    (@unset $type:ty) => { <$type as $crate::settings::setting::Setting>::UNSET };
    (@unset $type:ty, $default:literal) => {
        muster_core::fields::FieldDefault::Json(stringify!($default))
    };
    (
        #[doc = $about:literal]
        $name:ident {
            $(
                #[doc = $meaning:literal]
                $field:ident: $type:ty $(= $default:literal)?, $key:literal, $shown:literal;
            )*
        }
    ) => {
        #[doc = $about]
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $(#[doc = $meaning] pub $field: $type,)*
        }

        impl $name {
            /// The fields of the section.
            pub const fn table() -> &'static muster_core::fields::FieldTable {
                use muster_core::fields::{Field, FieldTable};
                use $crate::settings::setting::Setting;

                static TABLE: FieldTable =
                    FieldTable::new(stringify!($name), stringify!($name), &[$(
                        Field::optional(
                            $key,
                            <$type as Setting>::TYPE,
                            section!(@unset $type $(, $default)?),
                            $meaning.trim_ascii_start(),
                        )
                        .or_null(),
                    )*]);
                &TABLE
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: section!(@default $type $(, $default)?),)* }
            }
        }

        impl $crate::settings::setting::Setting for $name {
            type Literal = ();

            const TYPE: muster_core::fields::FieldType =
                muster_core::fields::FieldType::Object(Self::table());
            const UNSET: muster_core::fields::FieldDefault =
                muster_core::fields::FieldDefault::Unset("its defaults");

            fn literal((): ()) -> Self {
                Self::default()
            }

            fn read(
                self,
                reader: &mut $crate::reader::Reader,
                node: &$crate::yaml::Node,
            ) -> Option<Self> {
                use $crate::settings::setting::Setting;
                let fields = reader.fields(node, Self::table())?;
                $(
                    let base = self.$field.clone();
                    let $field = reader
                        .nullable(&fields, $key, |reader, node| Setting::read(base, reader, node));
                )*
                Some(Self { $($field: $field?.0.unwrap_or(self.$field),)* })
            }

            fn value(&self) -> muster_core::value::Value {
                use $crate::settings::setting::Setting;
                muster_core::value::Value::Map(vec![$((
                    muster_core::value::Value::Text($key.to_owned()),
                    Setting::value(&self.$field),
                ),)*])
            }

            fn view(&self) -> serde_json::Value {
                use $crate::settings::setting::Setting;
                let mut map = serde_json::Map::new();
                $(map.insert($shown.to_owned(), Setting::view(&self.$field));)*
                serde_json::Value::Object(map)
            }

            fn changed(&self) -> muster_core::value::Value {
                use $crate::settings::setting::Setting;
                let defaults = Self::default();
                let mut pairs = Vec::new();
                $(
                    if self.$field != defaults.$field {
                        let key = muster_core::value::Value::Text($key.to_owned());
                        pairs.push((key, Setting::changed(&self.$field)));
                    }
                )*
                muster_core::value::Value::Map(pairs)
            }
        }
    };
}
pub(super) use section;

impl Setting for bool {
    type Literal = Self;

    const TYPE: FieldType = FieldType::Boolean;
    const UNSET: FieldDefault = FALSE;

    fn literal(literal: Self::Literal) -> Self {
        literal
    }

    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        reader.boolean(node)
    }

    fn value(&self) -> Value {
        Value::Bool(*self)
    }

    fn view(&self) -> Json {
        Json::from(*self)
    }
}

impl Setting for u16 {
    type Literal = Self;

    const TYPE: FieldType = FieldType::Integer { min: 0, max: Self::MAX as i64 };
    const UNSET: FieldDefault = FieldDefault::Json("0");

    fn literal(literal: Self::Literal) -> Self {
        literal
    }

    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        let number = reader.integer(node, 0, Self::MAX.into())?;
        Self::try_from(number).ok()
    }

    fn value(&self) -> Value {
        Value::Int(self.to_string())
    }

    fn view(&self) -> Json {
        Json::from(*self)
    }
}

impl Setting for String {
    type Literal = &'static str;

    const TYPE: FieldType = FieldType::String;
    const UNSET: FieldDefault = EMPTY;

    fn literal(literal: Self::Literal) -> Self {
        literal.to_owned()
    }

    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        let text = reader.text(node)?;
        Some(if without_embedded(&self).is_some_and(|shown| shown == text) { self } else { text })
    }

    fn value(&self) -> Value {
        Value::Text(self.clone())
    }

    /// Without the password in a URL.
    fn view(&self) -> Json {
        Json::from(without_embedded(self).unwrap_or_else(|| self.clone()))
    }
}

impl Setting for Vec<String> {
    type Literal = ();

    const TYPE: FieldType = FieldType::List(&FieldType::String);
    const UNSET: FieldDefault = NONE;

    fn literal((): ()) -> Self {
        Self::new()
    }

    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        reader.list(node, Reader::text)
    }

    fn value(&self) -> Value {
        Value::List(self.iter().map(Setting::value).collect())
    }

    fn view(&self) -> Json {
        Json::from(self.clone())
    }
}

impl<T: Setting + Default> Setting for BTreeMap<String, T> {
    type Literal = ();

    const TYPE: FieldType = FieldType::Map(&T::TYPE);
    const UNSET: FieldDefault = NONE;

    fn literal((): ()) -> Self {
        Self::new()
    }

    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        let read = |reader: &mut Reader, node: &Node| T::default().read(reader, node);
        Some(reader.map(node, read)?.into_iter().collect())
    }

    fn value(&self) -> Value {
        let pairs = self.iter().map(|(key, value)| (Value::Text(key.clone()), value.changed()));
        Value::Map(pairs.collect())
    }

    fn view(&self) -> Json {
        self.iter().map(|(key, value)| (key.clone(), value.view())).collect()
    }
}

impl Setting for Vec<TrustedIssuer> {
    type Literal = ();

    const TYPE: FieldType = FieldType::List(&TrustedIssuer::TYPE);
    const UNSET: FieldDefault = NONE;

    fn literal((): ()) -> Self {
        Self::new()
    }

    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        reader.list(node, |reader, node| TrustedIssuer::default().read(reader, node))
    }

    fn value(&self) -> Value {
        Value::List(self.iter().map(Setting::value).collect())
    }

    fn view(&self) -> Json {
        self.iter().map(Setting::view).collect()
    }
}

impl Setting for Secret {
    type Literal = ();

    const TYPE: FieldType = FieldType::Secret;
    const UNSET: FieldDefault = NONE;

    fn literal((): ()) -> Self {
        Self::default()
    }

    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        match reader.text(node)? {
            hidden if hidden == REDACTED => Some(self),
            text => Some(Self::new(text)),
        }
    }

    fn value(&self) -> Value {
        Value::Text(self.reveal().clone())
    }

    fn view(&self) -> Json {
        Json::from(if self.reveal().is_empty() { "" } else { REDACTED })
    }
}
