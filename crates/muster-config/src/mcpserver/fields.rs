//! The fields of an MCP server.

use muster_core::fields::{EMPTY, FALSE, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldType::{Boolean, Enum, EnumByCheck, Integer, List, Map, Object, Scalar, String};

/// The transports of MCP, by their names in files.
pub(super) const TRANSPORTS: &[&str] = &["stdio", "streamable-http", "sse"];

const SECONDS: FieldType = Integer { min: 0, max: u32::MAX as i64 };

/// How an MCP server is reached.
pub static SPEC: FieldTable = FieldTable::new(
    "MCPServerSpec",
    "MCP server",
    &[
        Field::optional(
            "type",
            EnumByCheck(TRANSPORTS),
            FieldDefault::Unset("`stdio` with a `command`, `streamable-http` with a `url`"),
            "The transport: a child process, streamable HTTP, or the older HTTP+SSE",
        )
        .or_null(),
        Field::optional(
            "toolPrefix",
            String,
            FieldDefault::Unset("the server's name"),
            "Replaces the server's name in the names of its tools",
        )
        .or_null(),
        Field::optional("description", String, EMPTY, "One line about the server").or_null(),
        Field::optional(
            "autoStart",
            Boolean,
            FieldDefault::Unset("`false`; `true` in the short form"),
            "Whether the server is connected when the gateway starts, and when its file is added",
        )
        .or_null(),
        Field::optional("command", String, EMPTY, "The program to run (`stdio`)").or_null(),
        Field::optional("args", List(&Scalar), NONE, "Arguments of the program (`stdio`)")
            .or_null(),
        Field::optional("url", String, EMPTY, "The address (`streamable-http`, `sse`)").or_null(),
        Field::optional(
            "env",
            Map(&Scalar),
            NONE,
            "Variables added to the environment of the program (`stdio`)",
        )
        .or_null(),
        Field::optional(
            "inheritEnv",
            List(&String),
            NONE,
            "Names of variables that the program inherits from the gateway (`stdio`), besides `PATH`, `HOME`, `LANG` and others without secrets; `\"*\"` for all",
        )
        .or_null(),
        Field::optional(
            "headers",
            Map(&Scalar),
            NONE,
            "HTTP headers sent with every request (`streamable-http`, `sse`)",
        )
        .or_null(),
        Field::optional(
            "timeout",
            SECONDS,
            FieldDefault::Json("30"),
            "Timeout of a connection attempt, in seconds; `0` selects the default",
        )
        .or_null(),
        Field::optional(
            "callTimeout",
            SECONDS,
            FieldDefault::Unset("no limit"),
            "Timeout of a call, in seconds; `0` is no limit",
        )
        .or_null(),
        Field::optional(
            "auth",
            Object(&AUTH),
            NONE,
            "How the gateway authenticates to the server (`streamable-http`, `sse`)",
        )
        .or_null(),
    ],
);

/// How the gateway authenticates to a server.
pub static AUTH: FieldTable = FieldTable::new(
    "MCPServerAuth",
    "auth",
    &[
        Field::optional(
            "type",
            Enum(&["oauth", "teleport", "none"]),
            FieldDefault::Unset("chosen by the server's challenge"),
            "OAuth 2.1, a Teleport machine identity, or no authentication",
        )
        .or_null(),
        Field::optional(
            "forwardToken",
            Boolean,
            FALSE,
            "Whether the caller's own token is forwarded to the server",
        )
        .or_null(),
        Field::optional(
            "requiredAudiences",
            List(&String),
            NONE,
            "Audiences that a forwarded token must have",
        )
        .or_null(),
        Field::optional(
            "authorizationServer",
            Object(&AUTHORIZATION_SERVER),
            FieldDefault::Unset("discovered from the server"),
            "The authorization server that issues tokens for the server",
        )
        .or_null(),
        Field::optional(
            "tokenExchange",
            Object(&TOKEN_EXCHANGE),
            NONE,
            "Exchange of the caller's token for one of another issuer (RFC 8693)",
        )
        .or_null(),
        Field::optional(
            "teleport",
            Object(&TELEPORT),
            NONE,
            "The machine identity that opens Teleport (`type: teleport`)",
        )
        .or_null(),
    ],
);

/// The authorization server of an MCP server.
pub static AUTHORIZATION_SERVER: FieldTable = FieldTable::new(
    "AuthorizationServerConfig",
    "authorizationServer",
    &[
        Field::required("issuer", String, "Its issuer URL"),
        Field::optional(
            "scopes",
            String,
            FieldDefault::Unset("the scopes that the server asks for"),
            "Scopes to request, with blanks between",
        )
        .or_null(),
    ],
);

/// A token exchange.
pub static TOKEN_EXCHANGE: FieldTable = FieldTable::new(
    "TokenExchangeConfig",
    "tokenExchange",
    &[
        Field::optional("enabled", Boolean, FALSE, "Whether tokens are exchanged").or_null(),
        Field::optional(
            "dexTokenEndpoint",
            String,
            EMPTY,
            "The token endpoint that exchanges them",
        )
        .or_null(),
        Field::optional(
            "expectedIssuer",
            String,
            FieldDefault::Unset("derived from the endpoint"),
            "The issuer that the new token must have",
        )
        .or_null(),
        Field::optional("connectorId", String, EMPTY, "The connector at that issuer").or_null(),
        Field::optional("scopes", String, EMPTY, "Scopes to request, with blanks between")
            .or_null(),
        Field::optional(
            "clientCredentialsSecretRef",
            Object(&SECRET_REF),
            NONE,
            "The secret that holds the gateway's client credentials at that issuer",
        )
        .or_null(),
    ],
);

/// A reference to client credentials.
pub static SECRET_REF: FieldTable = FieldTable::new(
    "ClientCredentialsSecretRef",
    "clientCredentialsSecretRef",
    &[
        Field::required("name", String, "Name of the secret"),
        Field::optional("namespace", String, EMPTY, "Its namespace").or_null(),
        Field::optional(
            "clientIdKey",
            String,
            FieldDefault::Unset("`client-id`"),
            "The key of the client ID",
        )
        .or_null(),
        Field::optional(
            "clientSecretKey",
            String,
            FieldDefault::Unset("`client-secret`"),
            "The key of the client secret",
        )
        .or_null(),
    ],
);

/// A Teleport machine identity.
pub static TELEPORT: FieldTable = FieldTable::new(
    "TeleportAuth",
    "teleport",
    &[
        Field::optional("identityDir", String, EMPTY, "The directory that holds the identity")
            .or_null(),
        Field::optional("identitySecretName", String, EMPTY, "The secret that holds the identity")
            .or_null(),
        Field::optional("identitySecretNamespace", String, EMPTY, "The namespace of that secret")
            .or_null(),
        Field::optional("appName", String, EMPTY, "The application behind Teleport").or_null(),
    ],
);
