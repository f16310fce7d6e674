//! The fields of the authentication of an MCP server.

use muster_core::fields::{EMPTY, FALSE, Field, FieldDefault, FieldTable, FieldType, NONE};

use FieldType::{Boolean, Enum, List, Object, String};

/// How the gateway authenticates to a server.
pub static AUTH: FieldTable = FieldTable::new(
    "MCPServerAuth",
    "auth",
    &[
        Field::nullable(
            "type",
            Enum(&["oauth", "teleport", "none"]),
            FieldDefault::Unset("chosen by the server's challenge"),
            "OAuth 2.1, a Teleport machine identity, or no authentication",
        ),
        Field::nullable(
            "forwardToken",
            Boolean,
            FALSE,
            "Whether the caller's own token is forwarded to the server",
        ),
        Field::nullable(
            "requiredAudiences",
            List(&String),
            NONE,
            "Audiences that a forwarded token must have",
        ),
        Field::nullable(
            "authorizationServer",
            Object(&AUTHORIZATION_SERVER),
            FieldDefault::Unset("discovered from the server"),
            "The authorization server that issues tokens for the server",
        ),
        Field::nullable(
            "tokenExchange",
            Object(&TOKEN_EXCHANGE),
            NONE,
            "Exchange of the caller's token for one of another issuer (RFC 8693)",
        ),
        Field::nullable(
            "teleport",
            Object(&TELEPORT),
            NONE,
            "The machine identity that opens Teleport (`type: teleport`)",
        ),
    ],
);

/// The authorization server of an MCP server.
pub static AUTHORIZATION_SERVER: FieldTable = FieldTable::new(
    "AuthorizationServerConfig",
    "authorizationServer",
    &[
        Field::required("issuer", String, "The issuer URL"),
        Field::nullable(
            "scopes",
            String,
            FieldDefault::Unset("the scopes that the server asks for"),
            "Scopes to request, separated by spaces",
        ),
    ],
);

/// A token exchange.
pub static TOKEN_EXCHANGE: FieldTable = FieldTable::new(
    "TokenExchangeConfig",
    "tokenExchange",
    &[
        Field::nullable("enabled", Boolean, FALSE, "Whether tokens are exchanged"),
        Field::nullable(
            "dexTokenEndpoint",
            String,
            EMPTY,
            "The token endpoint that exchanges tokens",
        ),
        Field::nullable(
            "expectedIssuer",
            String,
            FieldDefault::Unset("derived from the endpoint"),
            "The issuer that the new token must have",
        ),
        Field::nullable("connectorId", String, EMPTY, "The connector at that issuer"),
        Field::nullable("scopes", String, EMPTY, "Scopes to request, separated by spaces"),
        Field::nullable(
            "clientCredentialsSecretRef",
            Object(&SECRET_REF),
            NONE,
            "The secret that holds the gateway's client credentials at that issuer",
        ),
    ],
);

/// A reference to client credentials.
pub static SECRET_REF: FieldTable = FieldTable::new(
    "ClientCredentialsSecretRef",
    "clientCredentialsSecretRef",
    &[
        Field::required("name", String, "Name of the secret"),
        Field::nullable("namespace", String, EMPTY, "Its namespace"),
        Field::nullable(
            "clientIdKey",
            String,
            FieldDefault::Unset("`client-id`"),
            "The key of the client ID",
        ),
        Field::nullable(
            "clientSecretKey",
            String,
            FieldDefault::Unset("`client-secret`"),
            "The key of the client secret",
        ),
    ],
);

/// A Teleport machine identity.
pub static TELEPORT: FieldTable = FieldTable::new(
    "TeleportAuth",
    "teleport",
    &[
        Field::nullable("identityDir", String, EMPTY, "The directory that holds the identity"),
        Field::nullable(
            "identitySecretName",
            String,
            EMPTY,
            "The Kubernetes Secret that holds the identity, with the same keys as files",
        ),
        Field::nullable("identitySecretNamespace", String, EMPTY, "The namespace of that Secret"),
        Field::nullable("appName", String, EMPTY, "The application behind Teleport"),
    ],
);
