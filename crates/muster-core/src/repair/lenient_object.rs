//! Lenient parsing of a value that should be an object.

use serde_json::value::RawValue;

use crate::json::{Raw, RawObject};

/// A value found where an object is expected.
#[derive(Debug)]
pub(super) enum LenientObject {
    /// An object.
    Object(Raw),
    /// An object encoded as JSON text.
    Text(Raw),
    /// An empty value: `null`, an empty list or empty text.
    Nothing,
    /// Any other value.
    Other,
}

impl LenientObject {
    /// Classifies a value.
    pub(super) fn of(raw: &RawValue) -> Self {
        match JsonType::of(raw) {
            JsonType::Object => Self::Object(raw.to_owned()),
            JsonType::Null => Self::Nothing,
            JsonType::Array if items(raw).is_some_and(|items| items.is_empty()) => Self::Nothing,
            JsonType::Text => Self::of_text(raw),
            JsonType::Array | JsonType::Number | JsonType::Boolean => Self::Other,
        }
    }

    /// Decodes up to two levels of JSON text.
    fn of_text(raw: &RawValue) -> Self {
        let mut text = text(raw).unwrap_or_default();
        for _ in 0..2 {
            if text.trim().is_empty() {
                return Self::Nothing;
            }
            let Ok(value) = serde_json::from_str::<Raw>(&text) else { return Self::Other };
            match JsonType::of(&value) {
                JsonType::Object => return Self::Text(value),
                JsonType::Null => return Self::Nothing,
                JsonType::Text => text = self::text(&value).unwrap_or_default(),
                JsonType::Array | JsonType::Number | JsonType::Boolean => return Self::Other,
            }
        }
        Self::Other
    }

    /// The object, if there is one.
    pub(super) fn object(self) -> Option<Raw> {
        match self {
            Self::Object(raw) | Self::Text(raw) => Some(raw),
            Self::Nothing | Self::Other => None,
        }
    }
}

/// The type of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonType {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

impl JsonType {
    /// The type of a value, by its first character.
    pub(super) fn of(raw: &RawValue) -> Self {
        match raw.get().trim_start().bytes().next() {
            Some(b'{') => Self::Object,
            Some(b'[') => Self::Array,
            Some(b'"') => Self::Text,
            Some(b't' | b'f') => Self::Boolean,
            Some(b'n') | None => Self::Null,
            Some(_) => Self::Number,
        }
    }

    /// The name in JSON Schema.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Number => "number",
            Self::Text => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }
}

/// The text, if the value is text.
pub(super) fn text(raw: &RawValue) -> Option<String> {
    serde_json::from_str(raw.get()).ok()
}

/// The items, if the value is a list.
pub(super) fn items(raw: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(raw.get()).ok()
}

/// The members, if the value is an object.
pub(super) fn members(raw: &RawValue) -> Option<Vec<(String, Raw)>> {
    RawObject::parse(raw).map(RawObject::deduplicated)
}
