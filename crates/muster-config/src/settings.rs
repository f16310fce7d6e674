//! `config.yaml`, the configuration of the gateway.
//!
//! Each key is one row below: its meaning, default, name in the file, and name in the replies of
//! `core_config_get`.

mod choice;
mod clis;
mod secret_files;
mod setting;
mod token_exchange;

use std::collections::BTreeMap;

use muster_core::{
    fields::{FieldTable, FieldType},
    secret::Secret,
    value::Value,
};
use serde_json::Value as Json;

use self::setting::{Setting, section};
use super::{
    LoadError, Loaded,
    reader::{load, load_unique},
    writer,
};
use crate::yaml::{self, Node, NodeValue};

pub use self::{
    choice::{AccessMode, BundledClis, HistoryArguments, ServeTransport},
    clis::with_clis,
    setting::REDACTED,
    token_exchange::{BrokerClient, BrokerSecretRef, BrokerTarget, TokenExchangeBroker},
};

section! {
    /// The configuration of the gateway.
    Settings {
        /// The address, transport and tool names of the gateway
        aggregator: Aggregator, "aggregator", "Aggregator";
        /// The bundled CLIs that are offered; files in `clis/` are offered in any case
        clis: Clis, "clis", "CLIs";
        /// Who may use the gateway, and who may change it
        access: Access, "access", "Access";
        /// The metrics at `/metrics`
        metrics: MetricsAccess, "metrics", "Metrics";
        /// The history of calls
        history: HistorySettings, "history", "History";
        /// The pages for operators at `/console`
        console: ConsoleSettings, "console", "Console";
        /// The search for tools
        search: SearchSettings, "search", "Search";
        /// Traces for OpenTelemetry
        traces: TraceSettings, "traces", "Traces";
        /// Replicas of the gateway that serve the same clients
        replicas: ReplicaSettings, "replicas", "Replicas";
        /// Whether the state of servers and services is also written into their files, as `status`
        write_status: bool, "writeStatus", "WriteStatus";
        /// The namespace of resources; empty for `default`
        namespace: String, "namespace", "Namespace";
        /// Whether resources are stored in a Kubernetes cluster instead of files
        kubernetes: bool, "kubernetes", "Kubernetes";
    }
}

section! {
    /// The address, transport and tool names of the gateway.
    Aggregator {
        /// The port to listen on; 0 for any free port
        port: u16 = 8090, "port", "Port";
        /// The address to listen on
        host: String = "localhost", "host", "Host";
        /// The transport between clients and the gateway
        transport: ServeTransport, "transport", "Transport";
        /// The prefix of the names of backend tools; empty for `x`
        muster_prefix: String, "musterPrefix", "MusterPrefix";
        /// OAuth towards backends and towards clients
        oauth: OAuth, "oauth", "OAuth";
        /// Seconds that calls in flight may take when the gateway is stopped; then they are cut off
        drain_timeout: u16 = 5, "drainTimeout", "DrainTimeout";
        /// Limits on calls
        limits: Limits, "limits", "Limits";
    }
}

section! {
    /// Limits on calls. A caller is a user, or without a login the clients at one address.
    Limits {
        /// Calls of one caller at a time; 0 for no limit
        concurrent_calls: u16 = 1000, "concurrentCalls", "ConcurrentCalls";
        /// Calls of one caller per second; 0 for no limit
        calls_per_second: u16, "callsPerSecond", "CallsPerSecond";
        /// Calls in a row without an answer of a server after which its calls fail at once for a while; 0 for no limit
        call_failures: u16 = 5, "callFailures", "CallFailures";
    }
}

section! {
    /// The bundled CLIs that are offered.
    Clis {
        /// What is offered of the CLIs that the lists do not name: tools that only read, and only on this machine (`read-only`), `all` or `none`
        bundled: BundledClis, "bundled", "Bundled";
        /// The CLIs whose tools are all offered, such as `gh`; `muster enable cli NAME` adds one
        enabled: Vec<String>, "enabled", "Enabled";
        /// The CLIs that are not offered; `muster disable cli NAME` adds one
        disabled: Vec<String>, "disabled", "Disabled";
    }
}

section! {
    /// Who may use the gateway, and who may change it.
    Access {
        /// Who is admitted without a login: processes of the gateway's own user on this machine (`private`), only callers with a token (`token`), or every process on this machine, as an operator (`open`)
        mode: AccessMode, "mode", "Mode";
        /// The users who may change the gateway after a login
        operators: Operators, "operators", "Operators";
        /// Email addresses of users who may log in; if this and the next two are empty, everybody may
        allowed_users: Vec<String>, "allowedUsers", "AllowedUsers";
        /// Groups whose members may log in
        allowed_groups: Vec<String>, "allowedGroups", "AllowedGroups";
        /// Domains of email addresses whose users may log in
        allowed_domains: Vec<String>, "allowedDomains", "AllowedDomains";
        /// Host names by which clients reach the gateway without a login, besides its addresses; `*` for any
        allowed_hosts: Vec<String>, "allowedHosts", "AllowedHosts";
        /// Whether anyone who reaches an address of another machine's network may call tools, without a login or token
        insecure_bind: bool, "insecureBind", "InsecureBind";
    }
}

section! {
    /// Who may read the metrics at `/metrics`, besides operators.
    MetricsAccess {
        /// Names of static tokens that may, such as one of `muster token create prometheus`
        tokens: Vec<String>, "tokens", "Tokens";
        /// Whether every process on this machine may, of any user and without a token
        loopback: bool, "loopback", "Loopback";
    }
}

section! {
    /// The history of calls, which `muster calls` and `muster stats` show.
    HistorySettings {
        /// Whether calls are kept
        enabled: bool = true, "enabled", "Enabled";
        /// The size of the history in MiB; beyond it the oldest calls are deleted
        max_size: u16 = 32, "maxSize", "MaxSize";
        /// The number of days that calls are kept; 0 for as long as there is room
        max_age: u16 = 30, "maxAge", "MaxAge";
        /// How much of arguments and error texts is kept: `none`, `redacted` without what looks like a secret, or `full`
        arguments: HistoryArguments, "arguments", "Arguments";
    }
}

section! {
    /// The pages for operators at `/console`.
    ConsoleSettings {
        /// Whether they are served
        enabled: bool = true, "enabled", "Enabled";
    }
}

section! {
    /// The search for tools.
    SearchSettings {
        /// Whether tools are also found by meaning, with a small language model inside the gateway
        model: bool = true, "model", "Model";
    }
}

section! {
    /// Traces for OpenTelemetry. The variables `OTEL_EXPORTER_OTLP_*` take precedence.
    TraceSettings {
        /// The URL of a collector that speaks OTLP over HTTP, such as `http://localhost:4318`; empty for no traces
        endpoint: String, "endpoint", "Endpoint";
        /// The percentage of traces that is recorded, if the client does not decide
        sample_percent: u16 = 100, "samplePercent", "SamplePercent";
    }
}

section! {
    /// Replicas of the gateway that serve the same clients behind a load balancer.
    ReplicaSettings {
        /// Whether this gateway is a replica: it shares sessions, handles, limits and workflow executions with others in Valkey
        enabled: bool, "enabled", "Enabled";
        /// The Valkey server; without a URL, the one of `aggregator.oauth.server.storage`
        valkey: Valkey, "valkey", "Valkey";
        /// The key that encrypts the shared state; empty for the one of `aggregator.oauth.server`
        encryption_key: Secret, "encryptionKey", "EncryptionKey";
        /// A file that contains the secret
        encryption_key_file: String, "encryptionKeyFile", "EncryptionKeyFile";
    }
}

section! {
    /// Users who may change the gateway.
    Operators {
        /// Email addresses, or issuers and subjects joined by a vertical bar
        users: Vec<String>, "users", "Users";
        /// Groups at the identity provider
        groups: Vec<String>, "groups", "Groups";
    }
}

section! {
    /// OAuth towards backends and towards clients.
    OAuth {
        /// The gateway as an OAuth client of protected backends
        mcp_client: McpClient, "mcpClient", "MCPClient";
        /// The gateway as a resource server that requires tokens of its clients
        server: OAuthServer, "server", "Server";
    }
}

section! {
    /// The gateway as an OAuth client of protected backends.
    McpClient {
        /// Whether the gateway logs in to backends
        enabled: bool, "enabled", "Enabled";
        /// The URL at which browsers reach the gateway
        public_url: String, "publicUrl", "PublicURL";
        /// The client ID; empty for the URL of the client metadata document
        client_id: String, "clientId", "ClientID";
        /// The secret of a pre-registered client ID
        client_secret: Secret, "clientSecret", "ClientSecret";
        /// A file that contains the secret
        client_secret_file: String, "clientSecretFile", "ClientSecretFile";
        /// The issuer at which the client ID is registered; it is not sent to others
        client_issuer: String, "clientIssuer", "ClientIssuer";
        /// The path of the OAuth callback
        callback_path: String = "/oauth/proxy/callback", "callbackPath", "CallbackPath";
        /// The client ID metadata document of the gateway
        cimd: Cimd, "cimd", "CIMD";
        /// A file of CA certificates to trust in addition to the system's
        ca_file: String, "caFile", "CAFile";
        /// Pages that a login link may name in `redirect`, each with what is below it; browsers go there after the login
        post_login_redirect_allowlist: Vec<String>, "postLoginRedirectAllowlist", "PostLoginRedirectAllowlist";
    }
}

section! {
    /// The client ID metadata document of the gateway.
    Cimd {
        /// The path of the document
        path: String = "/.well-known/oauth-client.json", "path", "Path";
        /// The scopes in the document; empty for the default
        scopes: String, "scopes", "Scopes";
    }
}

section! {
    /// The gateway as a resource server that requires tokens of its clients.
    OAuthServer {
        /// Whether clients must log in
        enabled: bool, "enabled", "Enabled";
        /// The URL of the gateway, and the issuer of its tokens
        base_url: String, "baseUrl", "BaseURL";
        /// The identity provider: `dex` or `google`
        provider: String = "dex", "provider", "Provider";
        /// Dex as the identity provider
        dex: Dex, "dex", "Dex";
        /// Google as the identity provider
        google: Google, "google", "Google";
        /// The storage of sessions and tokens
        storage: Storage, "storage", "Storage";
        /// The token that client registration requires
        registration_token: Secret, "registrationToken", "RegistrationToken";
        /// A file that contains the secret
        registration_token_file: String, "registrationTokenFile", "RegistrationTokenFile";
        /// Whether clients may register without the registration token
        allow_public_client_registration: bool, "allowPublicClientRegistration", "AllowPublicClientRegistration";
        /// The key that encrypts stored sessions
        encryption_key: Secret, "encryptionKey", "EncryptionKey";
        /// A file that contains the secret
        encryption_key_file: String, "encryptionKeyFile", "EncryptionKeyFile";
        /// Redirect URI schemes that may be registered without the token
        trusted_public_registration_schemes: Vec<String>, "trustedPublicRegistrationSchemes", "TrustedPublicRegistrationSchemes";
        /// Whether clients may identify themselves with a metadata document
        enable_cimd: bool = true, "enableCIMD", "EnableCIMD";
        /// Whether redirect URIs may point to the user's own machine
        allow_localhost_redirect_uris: bool = true, "allowLocalhostRedirectURIs", "AllowLocalhostRedirectURIs";
        /// Origins that CORS allows, separated by commas
        allowed_origins: String, "allowedOrigins", "AllowedOrigins";
        /// The lifetime of a session
        session_duration: String = "720h", "sessionDuration", "SessionDuration";
        /// The resource identifier that tokens may name besides the URL
        resource_identifier: String, "resourceIdentifier", "ResourceIdentifier";
        /// Further clients of the identity provider whose ID tokens are accepted
        trusted_audiences: Vec<String>, "trustedAudiences", "TrustedAudiences";
        /// Further issuers whose tokens are accepted
        trusted_issuers: Vec<TrustedIssuer>, "trustedIssuers", "TrustedIssuers";
        /// The token exchange broker
        token_exchange_broker: TokenExchangeBroker, "tokenExchangeBroker", "TokenExchangeBroker";
        /// Networks of proxies whose forwarding headers are trusted
        trusted_proxy_cidrs: Vec<String>, "trustedProxyCIDRs", "TrustedProxyCIDRs";
        /// Redirect URIs that may be registered without the token
        trusted_public_registration_redirect_uris: Vec<String>, "trustedPublicRegistrationRedirectURIs", "TrustedPublicRegistrationRedirectURIs";
        /// Accepted for compatibility, without effect
        enable_hsts: bool, "enableHSTS", "EnableHSTS";
        /// Accepted for compatibility, without effect
        tls_cert_file: String, "tlsCertFile", "TLSCertFile";
        /// Accepted for compatibility, without effect
        tls_key_file: String, "tlsKeyFile", "TLSKeyFile";
    }
}

section! {
    /// An issuer whose tokens are accepted.
    TrustedIssuer {
        /// The issuer URL
        issuer: String, "issuer", "Issuer";
        /// The audiences of which a token must have one; without any, only tokens for this gateway are accepted
        allowed_audiences: Vec<String>, "allowedAudiences", "AllowedAudiences";
        /// Another name for `allowedAudiences`
        audiences: Vec<String>, "audiences", "Audiences";
        /// Claims that a token must have, with exact values or patterns: `*` stands for any text, `?` for one character
        allowed_claims: BTreeMap<String, String>, "allowedClaims", "AllowedClaims";
        /// The claim that names the user in place of `sub`; a token without it is refused
        subject_claim: String, "subjectClaim", "SubjectClaim";
        /// The `typ` headers of accepted tokens, `""` for tokens without one; without a list every type that authenticates a user
        accepted_typ_headers: Vec<String>, "acceptedTypHeaders", "AcceptedTypHeaders";
        /// The URL of its keys; otherwise its metadata names it
        jwks_url: String, "jwksUrl", "JwksURL";
        /// Whether its keys may be at a private address
        allow_private_ip_jwks: bool, "allowPrivateIPJWKS", "AllowPrivateIPJWKS";
        /// Host names of its keys and metadata that may have private addresses, if not all may
        allow_private_ip_jwks_hosts: Vec<String>, "allowPrivateIPJWKSHosts", "AllowPrivateIPJWKSHosts";
        /// Accepted for compatibility, without effect: scopes of tokens give no rights in the gateway
        allowed_scopes: Vec<String>, "allowedScopes", "AllowedScopes";
    }
}

section! {
    /// Dex as the identity provider.
    Dex {
        /// Its URL
        issuer_url: String, "issuerUrl", "IssuerURL";
        /// The client ID of the gateway
        client_id: String, "clientId", "ClientID";
        /// The client secret of the gateway
        client_secret: Secret, "clientSecret", "ClientSecret";
        /// A file that contains the secret
        client_secret_file: String, "clientSecretFile", "ClientSecretFile";
        /// The connector that logins go to directly
        connector_id: String, "connectorId", "ConnectorID";
        /// A file of CA certificates to trust in addition to the system's
        ca_file: String, "caFile", "CAFile";
        /// Whether it may have a private address
        allow_private_ip_oidc: bool, "allowPrivateIPOIDC", "AllowPrivateIPOIDC";
    }
}

section! {
    /// Google as the identity provider.
    Google {
        /// The client ID of the gateway
        client_id: String, "clientId", "ClientID";
        /// The client secret of the gateway
        client_secret: Secret, "clientSecret", "ClientSecret";
        /// A file that contains the secret
        client_secret_file: String, "clientSecretFile", "ClientSecretFile";
    }
}

section! {
    /// The storage of sessions and tokens.
    Storage {
        /// The kind of storage: `memory` or `valkey`
        kind: String = "memory", "type", "Type";
        /// The Valkey server
        valkey: Valkey, "valkey", "Valkey";
    }
}

section! {
    /// A Valkey server.
    Valkey {
        /// Its URL
        url: String, "url", "URL";
        /// Its password
        password: Secret, "password", "Password";
        /// A file that contains the secret
        password_file: String, "passwordFile", "PasswordFile";
        /// Whether to connect with TLS
        tls_enabled: bool, "tlsEnabled", "TLSEnabled";
        /// The name in its certificate, if it is not the host of its URL
        tls_server_name: String, "tlsServerName", "TLSServerName";
        /// Whether it is a cluster; the URL is that of any of its nodes
        cluster_enabled: bool, "clusterEnabled", "ClusterEnabled";
        /// The prefix of keys; empty for `muster:`
        key_prefix: String, "keyPrefix", "KeyPrefix";
        /// The number of the database
        db: u16, "db", "DB";
    }
}

/// Reads `config.yaml`. An empty file is a file of defaults.
pub fn parse(text: &str) -> Result<Loaded<Settings>, LoadError> {
    if yaml::parse(text)?.to_value() == Value::Null {
        return Ok(Loaded { value: Settings::default(), warnings: Vec::new() });
    }
    load_unique(text, |reader, node| Settings::default().read(reader, node))
}

impl Settings {
    /// The configuration as a file: the keys that differ from their defaults, and the address.
    pub fn text(&self) -> String {
        let always = ["port", "host", "transport"];
        let Value::Map(mut pairs) = self.changed() else { return String::new() };
        let text = |text: &str| Value::Text(text.to_owned());
        let Value::Map(all) = self.aggregator.value() else { return String::new() };
        let Value::Map(changed) = self.aggregator.changed() else { return String::new() };
        let is = |pair: &(Value, Value), names: &[&str]| {
            pair.0.as_text().is_some_and(|key| names.contains(&key))
        };
        let mut aggregator: Vec<_> = all.into_iter().filter(|pair| is(pair, &always)).collect();
        aggregator.extend(changed.into_iter().filter(|pair| !is(pair, &always)));
        pairs.retain(|pair| !is(pair, &["aggregator"]));
        pairs.push((text("aggregator"), Value::Map(aggregator)));
        writer::document(&pairs)
    }

    /// The reply of `core_config_get`, with secrets redacted.
    pub fn view(&self) -> Json {
        Setting::view(self)
    }

    /// The namespace of resources.
    pub fn namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

impl Aggregator {
    /// The prefix of the names of backend tools.
    pub fn prefix(&self) -> &str {
        if self.muster_prefix.is_empty() { "x" } else { &self.muster_prefix }
    }

    /// The reply of `core_config_get_aggregator`, with secrets redacted.
    pub fn view(&self) -> Json {
        Setting::view(self)
    }

    /// Applies the keys of a JSON object. Their case does not matter, and a redacted secret keeps its
    /// value.
    pub fn updated(&self, json: &str) -> Result<Loaded<Self>, LoadError> {
        let mut keys = Vec::new();
        all_names(Self::table(), &mut keys);
        load(json, |reader, node| self.clone().read(reader, &fold_case(node, &keys)))
    }
}

/// The names of all fields in a table and below it.
fn all_names(table: &'static FieldTable, names: &mut Vec<&'static str>) {
    for field in table.all() {
        names.push(field.name);
        match &field.holds {
            FieldType::Object(table)
            | FieldType::List(FieldType::Object(table))
            | FieldType::Map(FieldType::Object(table)) => {
                all_names(table, names);
            }
            _ => (),
        }
    }
}

/// The tree with every key in the spelling of the file.
fn fold_case(node: &Node, keys: &[&'static str]) -> Node {
    let value = match &node.value {
        NodeValue::Map(pairs) => NodeValue::Map(
            pairs.iter().map(|(key, value)| (spelled(key, keys), fold_case(value, keys))).collect(),
        ),
        other => other.clone(),
    };
    Node { value, ..*node }
}

fn spelled(key: &Node, keys: &[&'static str]) -> Node {
    let mut key = key.clone();
    if let NodeValue::Scalar(scalar) = &mut key.value
        && let Value::Text(text) = &mut scalar.value
        && let Some(known) = keys.iter().find(|known| known.eq_ignore_ascii_case(text))
    {
        *text = (*known).to_owned();
    }
    key
}

#[cfg(test)]
mod tests;
