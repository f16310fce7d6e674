//! Raw JSON values, and objects opened one level deep.
//!
//! Values that muster does not own are not parsed. A [`RawObject`] preserves the order and the
//! exact bytes of every value; only keys that are set or removed change.

pub mod scan;
pub mod unescape;

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap as _,
};
use serde_json::value::RawValue;

/// A JSON value as written.
pub type Raw = Box<RawValue>;

/// A JSON object opened one level: ordered keys and raw values.
#[derive(Debug, Clone, Default)]
pub struct RawObject<'a> {
    members: Vec<(Cow<'a, str>, Cow<'a, RawValue>)>,
}

impl<'a> RawObject<'a> {
    /// An empty object.
    pub const fn new() -> Self {
        Self { members: Vec::new() }
    }

    /// Parses an object; `None` for other values.
    pub fn parse(raw: &'a RawValue) -> Option<Self> {
        serde_json::from_str(raw.get()).ok()
    }

    /// The value of `key`; the last of equal keys, as in most JSON parsers.
    pub fn get(&self, key: &str) -> Option<&RawValue> {
        self.members.iter().rev().find(|(name, _)| name == key).map(|(_, value)| &**value)
    }

    /// The value of `key`, if it is text.
    pub fn get_text(&self, key: &str) -> Option<String> {
        let json = self.get(key)?.get();
        match json.strip_prefix('"')?.strip_suffix('"') {
            Some(text) if !text.contains('\\') => Some(text.to_owned()),
            _ => serde_json::from_str(json).ok(),
        }
    }

    /// Replaces the value of `key` or appends it.
    pub fn set(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, RawValue>>) {
        let (key, value) = (key.into(), value.into());
        match self.members.iter_mut().rev().find(|(name, _)| *name == key) {
            Some(member) => member.1 = value,
            None => self.members.push((key, value)),
        }
    }

    /// Appends a member, whether or not there is one with this key.
    pub fn append(&mut self, key: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, RawValue>>) {
        self.members.push((key.into(), value.into()));
    }

    /// Sets `key` to a serializable value.
    pub fn set_value(&mut self, key: impl Into<Cow<'a, str>>, value: &(impl Serialize + ?Sized)) {
        self.set(key, Cow::Owned(raw(value)));
    }

    /// Removes all members with `key`.
    pub fn remove(&mut self, key: &str) {
        self.members.retain(|(name, _)| name != key);
    }

    /// The members in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.members.iter().map(|(key, value)| (&**key, &**value))
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The members with each key once: at its first position, with its last value.
    pub fn deduplicated(self) -> Vec<(String, Raw)> {
        let mut members: indexmap::IndexMap<String, Raw> = indexmap::IndexMap::new();
        for (key, value) in self.members {
            members.insert(key.into_owned(), value.into_owned());
        }
        members.into_iter().collect()
    }

    /// Serializes the object.
    pub fn to_raw(&self) -> Raw {
        raw(self)
    }
}

/// Serializes a value. Serialization of our own types cannot fail; if it ever did, the result would
/// be `null`, never invalid JSON.
pub fn raw(value: &(impl Serialize + ?Sized)) -> Raw {
    serde_json::value::to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The object as JSON.
impl fmt::Display for RawObject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (number, (key, value)) in self.members.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "," })?;
            if key.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
            {
                f.write_str("\"")?;
                f.write_str(key)?;
                f.write_str("\":")?;
            } else {
                f.write_str(raw(key).get())?;
                f.write_str(":")?;
            }
            f.write_str(value.get())?;
        }
        f.write_str("}")
    }
}

impl Serialize for RawObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.members.len()))?;
        for (key, value) in &self.members {
            map.serialize_entry(key, &**value)?;
        }
        map.end()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = RawObject<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::with_capacity(4);
                while let Some((Key(key), value)) = map.next_entry::<Key<'de>, &'de RawValue>()? {
                    members.push((key, Cow::Borrowed(value)));
                }
                Ok(RawObject { members })
            }
        }

        deserializer.deserialize_map(Members)
    }
}

/// A key, borrowed from the input unless it contains escapes.
struct Key<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Key<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;

        impl<'de> Visitor<'de> for Text {
            type Value = Key<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Borrowed(key)))
            }

            fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
                Ok(Key(Cow::Owned(key.to_owned())))
            }
        }

        deserializer.deserialize_str(Text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{RawObject, raw};

    #[test]
    fn only_set_keys_change() {
        let input =
            r#"{"name":"a\u0062","big":12345678901234567890123,"x":{ "odd" : 1.0 },"n":null}"#;
        let parsed: Box<RawValue> = serde_json::from_str(input).unwrap();
        let mut object = RawObject::parse(&parsed).unwrap();
        object.set_value("name", "c");
        object.remove("n");
        object.set_value("new", &true);
        assert_eq!(
            object.to_raw().get(),
            r#"{"name":"c","big":12345678901234567890123,"x":{ "odd" : 1.0 },"new":true}"#
        );
    }

    #[test]
    fn display_and_serialization_agree() {
        for input in [
            "{}",
            r#"{"a":1,"b\u0022\\\n\u007f\u00e9":{ "x" : 1.0 },"":"\u0000"}"#,
            r#"{"a":null,"a":[]}"#,
        ] {
            let parsed: Box<RawValue> = serde_json::from_str(input).unwrap();
            let object = RawObject::parse(&parsed).unwrap();
            assert_eq!(object.to_string(), object.to_raw().get());
        }
    }

    #[test]
    fn text_with_and_without_escapes() {
        let input = r#"{"plain":"größe","escaped":"a\"b\u0041\\","number":1,"empty":""}"#;
        let parsed: Box<RawValue> = serde_json::from_str(input).unwrap();
        let object = RawObject::parse(&parsed).unwrap();
        for (key, expected) in [
            ("plain", Some("größe")),
            ("escaped", Some("a\"bA\\")),
            ("number", None),
            ("empty", Some("")),
            ("missing", None),
        ] {
            assert_eq!(object.get_text(key).as_deref(), expected, "{key}");
        }
    }

    #[test]
    fn not_an_object() {
        assert!(RawObject::parse(&raw(&[1])).is_none());
        assert!(RawObject::parse(&raw("x")).is_none());
    }
}
