//! The definition of an MCP server: its fields as files have them, and as the code reads them.

use std::time::Duration;

use indexmap::IndexMap;
use muster_core::{
    connect::{Endpoint, MachineIdentity, ProtocolEra},
    fields::{EMPTY, Field, FieldDefault, FieldTable, FieldType, NONE},
    server_auth::{AuthType, ServerAuth, TeleportAuth},
};
use serde::{Deserialize, Serialize};

use super::auth_fields::AUTH;

/// The timeout of a connection attempt when the file sets none.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The transports of MCP, by their names in files.
pub(super) const TRANSPORTS: &[&str] = &["stdio", "streamable-http", "sse"];

const SECONDS: FieldType = FieldType::Integer { min: 0, max: u32::MAX as i64 };

/// The fields of [`McpServerSpec`] in files: those of core tools, and those that only operators set.
pub(super) static FILE: FieldTable =
    FieldTable::new("MCPServerSpec", "MCP server", &[Field::nullable(
        "approval",
        FieldType::Enum(&["approved", "pending"]),
        FieldDefault::Json("\"approved\""),
        "`pending`: added or changed by an agent, and not connected until an operator approves it with \
         `muster approve mcpserver NAME`",
    )])
    .including(&[&SPEC]);

/// The fields of [`McpServerSpec`] that core tools take.
pub static SPEC: FieldTable = FieldTable::new(
    "MCPServerSpec",
    "MCP server",
    &[
        Field::nullable(
            "type",
            FieldType::EnumByCheck(TRANSPORTS),
            FieldDefault::Unset("`stdio` with a `command`, `streamable-http` with a `url`"),
            "The transport: a child process, streamable HTTP, or the older HTTP+SSE",
        ),
        Field::nullable(
            "toolPrefix",
            FieldType::String,
            FieldDefault::Unset("the server's name"),
            "Replaces the server's name in the names of its tools",
        ),
        Field::nullable("description", FieldType::String, EMPTY, "One line about the server"),
        Field::nullable(
            "family",
            FieldType::Object(&FAMILY),
            NONE,
            "The family of the server. Tools that several servers of a family share are offered once, with an argument that selects the server",
        ),
        Field::nullable(
            "autoStart",
            FieldType::Boolean,
            FieldDefault::Unset("`false`; `true` in the short form"),
            "Whether the server is connected when the gateway starts, and when its file is added",
        ),
        Field::nullable("command", FieldType::String, EMPTY, "The program to run (`stdio`)"),
        Field::nullable(
            "args",
            FieldType::List(&FieldType::Scalar),
            NONE,
            "Arguments of the program (`stdio`)",
        ),
        Field::nullable("url", FieldType::String, EMPTY, "The address (`streamable-http`, `sse`)"),
        Field::nullable(
            "env",
            FieldType::Map(&FieldType::Scalar),
            NONE,
            "Variables added to the environment of the program (`stdio`)",
        ),
        Field::nullable(
            "inheritEnv",
            FieldType::List(&FieldType::String),
            NONE,
            "Names of variables that the program inherits from the gateway (`stdio`), besides `PATH`, `HOME`, `LANG` and others without secrets; `\"*\"` for all",
        ),
        Field::nullable(
            "runOn",
            FieldType::Enum(&["each", "one"]),
            FieldDefault::Json("\"each\""),
            "Which replicas run the program (`stdio`). `each`: every replica runs its own process. `one`: one replica runs it, and the others forward calls to it. No effect with a single gateway",
        ),
        Field::nullable(
            "headers",
            FieldType::Map(&FieldType::Scalar),
            NONE,
            "HTTP headers sent with every request (`streamable-http`, `sse`)",
        ),
        Field::nullable(
            "timeout",
            SECONDS,
            FieldDefault::Json("30"),
            "Timeout of a connection attempt, in seconds; `0` selects the default",
        ),
        Field::nullable(
            "callTimeout",
            SECONDS,
            FieldDefault::Unset("no limit"),
            "Timeout of a call, in seconds; `0` is no limit",
        ),
        Field::nullable(
            "protocolEra",
            FieldType::Enum(&["auto", "legacy", "modern"]),
            FieldDefault::Json("\"auto\""),
            "The protocol that the gateway speaks to the server: `legacy` begins with `initialize` and has sessions, `modern` is stateless; `auto` is `modern` where the server supports it, with a legacy session for legacy clients",
        ),
        Field::nullable(
            "auth",
            FieldType::Object(&AUTH),
            NONE,
            "How the gateway authenticates to the server (`streamable-http`, `sse`)",
        ),
    ],
);

/// The fields of [`FamilySpec`].
static FAMILY: FieldTable = FieldTable::new(
    "MCPServerFamily",
    "family",
    &[
        Field::required(
            "name",
            FieldType::String,
            "Its name, in the names of its tools: `x_<name>_<tool>`",
        ),
        Field::required(
            "instanceArg",
            FieldType::String,
            "The argument that selects a server by its name",
        ),
    ],
);

/// How an MCP server is reached. Each field has a row in [`FILE`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpServerSpec {
    /// Its transport.
    #[serde(rename = "type")]
    pub kind: ServerType,
    /// Whether it is connected when the gateway starts.
    pub auto_start: bool,
    /// Replaces its name in the names of its tools; empty for none.
    #[serde(skip_serializing_if = "is_default")]
    pub tool_prefix: String,
    /// One line about it.
    #[serde(skip_serializing_if = "is_default")]
    pub description: String,
    /// The family that it belongs to.
    #[serde(skip_serializing_if = "is_default")]
    pub family: Option<FamilySpec>,
    /// The program of a local server.
    #[serde(skip_serializing_if = "is_default")]
    pub command: String,
    /// Its arguments.
    #[serde(skip_serializing_if = "is_default")]
    pub args: Vec<String>,
    /// Variables added to its environment.
    #[serde(skip_serializing_if = "is_default")]
    pub env: IndexMap<String, String>,
    /// The names of variables that it inherits from the gateway.
    #[serde(skip_serializing_if = "is_default")]
    pub inherit_env: Vec<String>,
    /// Which replicas run its program.
    #[serde(skip_serializing_if = "is_default")]
    pub run_on: RunOn,
    /// The address of a remote server.
    #[serde(skip_serializing_if = "is_default")]
    pub url: String,
    /// HTTP headers sent with every request.
    #[serde(skip_serializing_if = "is_default")]
    pub headers: IndexMap<String, String>,
    /// Timeout of a connection attempt in seconds; zero for the default.
    #[serde(skip_serializing_if = "is_default")]
    pub timeout: u32,
    /// Timeout of a call in seconds; zero for none.
    #[serde(skip_serializing_if = "is_default")]
    pub call_timeout: u32,
    /// The protocol era that the gateway speaks to it.
    #[serde(skip_serializing_if = "is_default")]
    pub protocol_era: EraChoice,
    /// How the gateway authenticates to it.
    #[serde(skip_serializing_if = "is_default")]
    pub auth: Option<ServerAuth>,
    /// Whether an operator must approve it before it is connected.
    #[serde(skip_serializing_if = "is_default")]
    pub approval: Approval,
}

/// The family of an MCP server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FamilySpec {
    /// Its name.
    pub name: String,
    /// The argument that selects a server.
    pub instance_arg: String,
}

/// The choice of a protocol era.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EraChoice {
    /// The newest that the server supports.
    #[default]
    Auto,
    /// With `initialize` and sessions.
    Legacy,
    /// Stateless.
    Modern,
}

impl EraChoice {
    /// Its name, if one is chosen.
    pub const fn chosen(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Legacy => Some("legacy"),
            Self::Modern => Some("modern"),
        }
    }

    /// The era, if one is chosen.
    pub const fn forced(self) -> Option<ProtocolEra> {
        match self {
            Self::Auto => None,
            Self::Legacy => Some(ProtocolEra::Legacy),
            Self::Modern => Some(ProtocolEra::Modern),
        }
    }
}

/// The replicas that run a local server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RunOn {
    /// Each replica runs its own process.
    #[default]
    Each,
    /// One replica, which holds a lease, runs it, and the others call it there.
    One,
}

impl RunOn {
    /// Its name, if it is not the default.
    pub const fn chosen(self) -> Option<&'static str> {
        match self {
            Self::Each => None,
            Self::One => Some("one"),
        }
    }
}

/// Whether a server may be connected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// It may be connected.
    #[default]
    Approved,
    /// Not until an operator approves it: an agent added or changed it.
    Pending,
}

/// The transports of MCP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServerType {
    /// A child process.
    #[default]
    Stdio,
    /// Streamable HTTP.
    StreamableHttp,
    /// HTTP+SSE of 2024-11-05.
    Sse,
}

impl ServerType {
    /// Its name in files.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::StreamableHttp => "streamable-http",
            Self::Sse => "sse",
        }
    }

    /// The transport of this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = [Self::Stdio, Self::StreamableHttp, Self::Sse];
        all.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether it is a child process.
    pub const fn is_local(self) -> bool {
        matches!(self, Self::Stdio)
    }
}

impl McpServerSpec {
    /// A spec with defaults for everything but the type.
    pub fn of(kind: ServerType) -> Self {
        Self { kind, ..Self::default() }
    }

    /// The spec of a server at `endpoint`, with defaults for everything else.
    pub fn at(endpoint: Endpoint) -> Self {
        match endpoint {
            Endpoint::Stdio { command, args, env, inherit } => Self {
                command,
                args,
                env: env.into_iter().collect(),
                inherit_env: inherit,
                ..Self::of(ServerType::Stdio)
            },
            Endpoint::Http { url, headers } | Endpoint::Mtls { url, headers, .. } => {
                let headers = headers.into_iter().collect();
                Self { url, headers, ..Self::of(ServerType::StreamableHttp) }
            }
            Endpoint::Sse { url, headers } => {
                let headers = headers.into_iter().collect();
                Self { url, headers, ..Self::of(ServerType::Sse) }
            }
        }
    }

    /// The endpoint to connect to.
    pub fn endpoint(&self) -> Endpoint {
        let pairs = |map: &IndexMap<String, String>| {
            map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        match self.kind {
            ServerType::Stdio => Endpoint::Stdio {
                command: self.command.clone(),
                args: self.args.clone(),
                env: pairs(&self.env),
                inherit: self.inherit_env.clone(),
            },
            ServerType::StreamableHttp => {
                let (url, headers) = (self.url.clone(), pairs(&self.headers));
                match self.teleport() {
                    None => Endpoint::Http { url, headers },
                    Some(teleport) => Endpoint::Mtls {
                        url,
                        headers,
                        identity: match teleport.identity_dir.as_str() {
                            "" => MachineIdentity::Secret {
                                namespace: teleport.identity_secret_namespace.clone(),
                                name: teleport.identity_secret_name.clone(),
                            },
                            folder => MachineIdentity::Directory(folder.to_owned()),
                        },
                        app: teleport.app_name.clone(),
                    },
                }
            }
            ServerType::Sse => {
                Endpoint::Sse { url: self.url.clone(), headers: pairs(&self.headers) }
            }
        }
    }

    /// The Teleport identity, if it is reached through Teleport.
    pub fn teleport(&self) -> Option<&TeleportAuth> {
        let auth = self.auth.as_ref().filter(|auth| auth.kind == AuthType::Teleport)?;
        auth.teleport.as_ref()
    }

    /// The timeout of a connection attempt.
    pub fn connect_timeout(&self) -> Duration {
        match self.timeout {
            0 => DEFAULT_TIMEOUT,
            seconds => Duration::from_secs(seconds.into()),
        }
    }

    /// The timeout of a call, if there is one.
    pub fn call_timeout(&self) -> Option<Duration> {
        (self.call_timeout > 0).then(|| Duration::from_secs(self.call_timeout.into()))
    }

    /// Whether one replica runs it for all.
    pub fn runs_on_one(&self) -> bool {
        self.run_on == RunOn::One && self.kind.is_local()
    }

    /// Whether it waits for the approval of an operator.
    pub fn is_pending(&self) -> bool {
        self.approval == Approval::Pending
    }

    /// Whether a server that runs with `self` must be restarted to run with `next`.
    pub fn needs_restart(&self, next: &Self) -> bool {
        let essential = |spec: &Self| Self {
            description: String::new(),
            auto_start: false,
            call_timeout: 0,
            ..spec.clone()
        };
        essential(self) != essential(next)
    }
}

/// Whether a value is the default, which files leave out.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
