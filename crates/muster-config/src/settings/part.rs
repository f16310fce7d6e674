//! One key of the configuration, whatever it holds.

use muster_core::value::Value;
use serde_json::Value as Json;

use super::TrustedIssuer;
use crate::{reader::Reader, yaml::Node};

/// What stands in replies where a secret is.
pub const REDACTED: &str = "[REDACTED]";

/// What a key may hold.
pub(super) trait Part: Sized + Clone + PartialEq {
    /// What the file says in place of `self`.
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self>;

    /// As it is written to the file.
    fn value(&self) -> Value;

    /// As it is shown; secrets are hidden.
    fn view(&self) -> Json;

    /// The names of all keys below.
    fn keys(into: &mut Vec<&'static str>) {
        let _: &mut Vec<&'static str> = into;
    }

    /// What of it differs from the defaults, as it is written to the file.
    fn changed(&self) -> Value {
        self.value()
    }
}

/// A section of the file: a struct with one line for each key.
macro_rules! section {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr, $key:literal, $shown:literal;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::settings::part::Part for $name {
            fn read(
                self,
                reader: &mut $crate::reader::Reader,
                node: &$crate::yaml::Node,
            ) -> Option<Self> {
                use crate::settings::part::Part;
                let fields = reader.fields(node, stringify!($name), [$($key),*].as_slice())?;
                $(
                    let base = self.$field.clone();
                    let $field =
                        reader.nullable(&fields, $key, |reader, node| Part::read(base, reader, node));
                )*
                Some(Self { $($field: $field?.0.unwrap_or(self.$field),)* })
            }

            fn value(&self) -> muster_core::value::Value {
                use crate::settings::part::Part;
                muster_core::value::Value::Map(vec![
                    $((muster_core::value::Value::Text($key.to_owned()), Part::value(&self.$field)),)*
                ])
            }

            fn view(&self) -> serde_json::Value {
                use crate::settings::part::Part;
                let mut map = serde_json::Map::new();
                $(map.insert($shown.to_owned(), Part::view(&self.$field));)*
                serde_json::Value::Object(map)
            }

            fn keys(into: &mut Vec<&'static str>) {
                $(
                    into.push($key);
                    <$type as $crate::settings::part::Part>::keys(into);
                )*
            }

            fn changed(&self) -> muster_core::value::Value {
                use crate::settings::part::Part;
                let usual = Self::default();
                let mut pairs = Vec::new();
                $(
                    if self.$field != usual.$field {
                        let key = muster_core::value::Value::Text($key.to_owned());
                        pairs.push((key, Part::changed(&self.$field)));
                    }
                )*
                muster_core::value::Value::Map(pairs)
            }
        }
    };
}
pub(super) use section;

impl Part for bool {
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        reader.truth(node)
    }

    fn value(&self) -> Value {
        Value::Bool(*self)
    }

    fn view(&self) -> Json {
        Json::from(*self)
    }
}

impl Part for u16 {
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        let number = reader.number(node)?;
        if number.fract() == 0.0 && (0.0..=f64::from(Self::MAX)).contains(&number) {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is whole and within the range"
            )]
            return Some(number as Self);
        }
        let message = "Input should be a whole number from 0 to 65535";
        reader.refuse(node, message, "write a whole number")
    }

    fn value(&self) -> Value {
        Value::Int(self.to_string())
    }

    fn view(&self) -> Json {
        Json::from(*self)
    }
}

impl Part for String {
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        reader.text(node)
    }

    fn value(&self) -> Value {
        Value::Text(self.clone())
    }

    fn view(&self) -> Json {
        Json::from(self.as_str())
    }
}

impl Part for Vec<String> {
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        reader.list(node, Reader::text)
    }

    fn value(&self) -> Value {
        Value::List(self.iter().map(Part::value).collect())
    }

    fn view(&self) -> Json {
        Json::from(self.clone())
    }
}

impl Part for Vec<TrustedIssuer> {
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        reader.list(node, |reader, node| TrustedIssuer::default().read(reader, node))
    }

    fn value(&self) -> Value {
        Value::List(self.iter().map(Part::value).collect())
    }

    fn view(&self) -> Json {
        self.iter().map(Part::view).collect()
    }

    fn keys(into: &mut Vec<&'static str>) {
        TrustedIssuer::keys(into);
    }
}

/// Text that is never shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text, for whoever needs it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn shown(&self) -> &'static str {
        if self.0.is_empty() { "" } else { REDACTED }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}

impl Part for Secret {
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        match reader.text(node)? {
            hidden if hidden == REDACTED => Some(self),
            text => Some(Self(text)),
        }
    }

    fn value(&self) -> Value {
        Value::Text(self.0.clone())
    }

    fn view(&self) -> Json {
        Json::from(self.shown())
    }
}

/// What clients of the gateway speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// One client on the standard streams.
    Stdio,
}

const TRANSPORTS: &[(&str, Transport)] = &[
    ("streamable-http", Transport::StreamableHttp),
    ("sse", Transport::Sse),
    ("stdio", Transport::Stdio),
];

impl Transport {
    /// Its name in the file.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
            Self::Stdio => "stdio",
        }
    }
}

impl Part for Transport {
    fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
        // What says nothing means the usual.
        if node.as_text() == Some("") {
            return Some(Self::StreamableHttp);
        }
        reader.choice(node, TRANSPORTS)
    }

    fn value(&self) -> Value {
        Value::Text(self.as_str().to_owned())
    }

    fn view(&self) -> Json {
        Json::from(self.as_str())
    }
}
