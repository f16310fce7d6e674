//! A value that should be an object, and what agents send in its place.

use serde_json::value::RawValue;

use crate::json::{Raw, RawObject};

/// What was found where an object belongs.
#[derive(Debug)]
pub(super) enum Opened {
    /// An object.
    Object(Raw),
    /// An object, written down as text.
    Text(Raw),
    /// Nothing in some form: `null`, an empty list, empty text.
    Nothing,
    /// Something else.
    Other,
}

impl Opened {
    /// Opens a value.
    pub(super) fn of(raw: &RawValue) -> Self {
        match Kind::of(raw) {
            Kind::Object => Self::Object(raw.to_owned()),
            Kind::Null => Self::Nothing,
            Kind::Array if items(raw).is_some_and(|items| items.is_empty()) => Self::Nothing,
            Kind::Text => Self::of_text(raw),
            Kind::Array | Kind::Number | Kind::Boolean => Self::Other,
        }
    }

    /// Text that holds an object may itself have been written down as text once more.
    fn of_text(raw: &RawValue) -> Self {
        let mut text = text(raw).unwrap_or_default();
        for _ in 0..2 {
            if text.trim().is_empty() {
                return Self::Nothing;
            }
            let Ok(value) = serde_json::from_str::<Raw>(&text) else { return Self::Other };
            match Kind::of(&value) {
                Kind::Object => return Self::Text(value),
                Kind::Null => return Self::Nothing,
                Kind::Text => text = self::text(&value).unwrap_or_default(),
                Kind::Array | Kind::Number | Kind::Boolean => return Self::Other,
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

/// The kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Number,
    Text,
    Array,
    Object,
}

impl Kind {
    /// What a value is, by how it begins.
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

    /// How JSON Schema calls it.
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

/// The text, if the value is one.
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
