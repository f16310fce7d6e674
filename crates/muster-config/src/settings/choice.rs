//! Settings that are one of a few names.

use muster_core::{
    fields::{FieldDefault, FieldType},
    value::Value,
};
use serde_json::Value as Json;

use super::setting::Setting;
use crate::{reader::Reader, yaml::Node};

/// Defines an enum and its setting from one row for each name. The first name is the default; with `or ""`, an empty
/// text selects it too.
macro_rules! choice {
    (
        #[doc = $about:literal]
        $name:ident $(or $unset:literal)? {
            #[doc = $default_about:literal]
            $default:ident = $default_name:literal,
            $(#[doc = $other_about:literal] $other:ident = $other_name:literal,)+
        }
    ) => {
        #[doc = $about]
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub enum $name {
            #[doc = $default_about]
            #[default]
            $default,
            $(#[doc = $other_about] $other,)+
        }

        impl $name {
            const NAMES: &[(&str, Self)] =
                &[($default_name, Self::$default), $(($other_name, Self::$other)),+];

            /// Its name in the file.
            pub const fn as_str(self) -> &'static str {
                match self {
                    Self::$default => $default_name,
                    $(Self::$other => $other_name,)+
                }
            }

            /// Returns the choice with this name.
            pub fn named(name: &str) -> Option<Self> {
                Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, choice)| *choice)
            }
        }

        impl Setting for $name {
            type Literal = ();

            const TYPE: FieldType = FieldType::Enum(&[$default_name, $($other_name),+]);
            const UNSET: FieldDefault = FieldDefault::Json(concat!("\"", $default_name, "\""));

            fn literal((): ()) -> Self {
                Self::default()
            }

            fn read(self, reader: &mut Reader, node: &Node) -> Option<Self> {
                $(if node.as_text() == Some($unset) {
                    return Some(Self::default());
                })?
                reader.choice(node, Self::NAMES)
            }

            fn value(&self) -> Value {
                Value::Text(self.as_str().to_owned())
            }

            fn view(&self) -> Json {
                Json::from(self.as_str())
            }
        }
    };
}

choice! {
    /// The transport between clients and the gateway.
    ServeTransport or "" {
        /// Streamable HTTP.
        StreamableHttp = "streamable-http",
        /// HTTP+SSE of 2024-11-05.
        Sse = "sse",
        /// A single client on standard input and output.
        Stdio = "stdio",
    }
}

impl ServeTransport {
    /// The path of its URL; `None` for a transport without a URL.
    pub const fn path(self) -> Option<&'static str> {
        match self {
            Self::StreamableHttp => Some("mcp"),
            Self::Sse => Some("sse"),
            Self::Stdio => None,
        }
    }
}

choice! {
    /// Whether callers are checked.
    AccessMode {
        /// Callers prove who they are: by a login, a token, or as a process of the gateway's own user.
        Private = "private",
        /// As `private`, but no process is admitted for its user: the user's own clients present a token.
        Token = "token",
        /// Every caller that a login does not keep out is an operator.
        Open = "open",
    }
}

choice! {
    /// How much of the arguments of calls the history keeps.
    HistoryArguments {
        /// Their length alone.
        None = "none",
        /// All but what looks like a secret.
        Redacted = "redacted",
        /// Everything.
        Full = "full",
    }
}

choice! {
    /// The part of the bundled CLIs that is offered.
    BundledClis {
        /// The tools that only read, and only on this machine.
        ReadOnly = "read-only",
        /// All tools.
        All = "all",
        /// No tools.
        None = "none",
    }
}
