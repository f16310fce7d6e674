//! How an MCP server wants to be logged in to.

use muster_core::server_auth::{
    Auth, AuthType, AuthorizationServer, SecretRef, Teleport, TokenExchange,
};

use super::{flag, text_or_empty, texts_or_none};
use crate::{reader::Reader, yaml::Node};

const AUTH: &[&str] = &[
    "type",
    "forwardToken",
    "requiredAudiences",
    "authorizationServer",
    "tokenExchange",
    "teleport",
];
const PIN: &[&str] = &["issuer", "scopes"];
const EXCHANGE: &[&str] = &[
    "enabled",
    "dexTokenEndpoint",
    "expectedIssuer",
    "connectorId",
    "scopes",
    "clientCredentialsSecretRef",
];
const SECRET: &[&str] = &["name", "namespace", "clientIdKey", "clientSecretKey"];
const TELEPORT: &[&str] =
    &["identityDir", "identitySecretName", "identitySecretNamespace", "appName"];

const KINDS: &[(&str, AuthType)] = &[
    ("", AuthType::Unset),
    ("oauth", AuthType::OAuth),
    ("teleport", AuthType::Teleport),
    ("none", AuthType::None),
];

pub(super) fn read(reader: &mut Reader, node: &Node) -> Option<Auth> {
    let fields = reader.fields(node, "MCPServerAuth", AUTH)?;
    let kind = reader.nullable(&fields, "type", |reader, node| reader.choice(node, KINDS));
    let forward_token = flag(reader, &fields, "forwardToken");
    let required_audiences = texts_or_none(reader, &fields, "requiredAudiences");
    let authorization_server = reader.nullable(&fields, "authorizationServer", pin);
    let token_exchange = reader.nullable(&fields, "tokenExchange", exchange);
    let teleport = reader.nullable(&fields, "teleport", teleport);
    Some(Auth {
        kind: kind?.0.unwrap_or_default(),
        forward_token: forward_token?.unwrap_or_default(),
        required_audiences: required_audiences?,
        authorization_server: authorization_server?.0,
        token_exchange: token_exchange?.0,
        teleport: teleport?.0,
    })
}

fn pin(reader: &mut Reader, node: &Node) -> Option<AuthorizationServer> {
    let fields = reader.fields(node, "AuthorizationServer", PIN)?;
    let issuer = reader.required(&fields, "issuer", Reader::text);
    let scopes = text_or_empty(reader, &fields, "scopes");
    Some(AuthorizationServer { issuer: issuer?, scopes: scopes? })
}

fn exchange(reader: &mut Reader, node: &Node) -> Option<TokenExchange> {
    let fields = reader.fields(node, "TokenExchangeConfig", EXCHANGE)?;
    let enabled = flag(reader, &fields, "enabled");
    let dex_token_endpoint = text_or_empty(reader, &fields, "dexTokenEndpoint");
    let expected_issuer = text_or_empty(reader, &fields, "expectedIssuer");
    let connector_id = text_or_empty(reader, &fields, "connectorId");
    let scopes = text_or_empty(reader, &fields, "scopes");
    let secret = reader.nullable(&fields, "clientCredentialsSecretRef", secret);
    Some(TokenExchange {
        enabled: enabled?.unwrap_or_default(),
        dex_token_endpoint: dex_token_endpoint?,
        expected_issuer: expected_issuer?,
        connector_id: connector_id?,
        scopes: scopes?,
        client_credentials_secret_ref: secret?.0,
    })
}

fn secret(reader: &mut Reader, node: &Node) -> Option<SecretRef> {
    let fields = reader.fields(node, "ClientCredentialsSecretRef", SECRET)?;
    let name = reader.required(&fields, "name", Reader::text);
    let namespace = text_or_empty(reader, &fields, "namespace");
    let client_id_key = text_or_empty(reader, &fields, "clientIdKey");
    let client_secret_key = text_or_empty(reader, &fields, "clientSecretKey");
    Some(SecretRef {
        name: name?,
        namespace: namespace?,
        client_id_key: client_id_key?,
        client_secret_key: client_secret_key?,
    })
}

fn teleport(reader: &mut Reader, node: &Node) -> Option<Teleport> {
    let fields = reader.fields(node, "TeleportAuth", TELEPORT)?;
    let identity_dir = text_or_empty(reader, &fields, "identityDir");
    let identity_secret_name = text_or_empty(reader, &fields, "identitySecretName");
    let identity_secret_namespace = text_or_empty(reader, &fields, "identitySecretNamespace");
    let app_name = text_or_empty(reader, &fields, "appName");
    Some(Teleport {
        identity_dir: identity_dir?,
        identity_secret_name: identity_secret_name?,
        identity_secret_namespace: identity_secret_namespace?,
        app_name: app_name?,
    })
}
