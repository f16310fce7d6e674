//! The file that configures the gateway itself.
//!
//! Each key is one line below: its name in the file, its name in the replies of `core_config_get`,
//! and its default. What a file leaves out keeps the default.

mod part;

use muster_core::value::Value;
use serde_json::Value as Json;

use self::part::{Part, section};
use super::{LoadError, Loaded, reader::load, writer};
use crate::yaml::{self, Node, NodeValue};

pub use self::part::{REDACTED, Secret, Transport};

section! {
    /// Everything that `config.yaml` says.
    Settings {
        /// How the gateway is reached and what it shows.
        aggregator: Aggregator = Aggregator::default(), "aggregator", "Aggregator";
        /// Where resources belong; empty means `default`.
        namespace: String = String::new(), "namespace", "Namespace";
        /// Whether resources live in a cluster instead of files.
        kubernetes: bool = false, "kubernetes", "Kubernetes";
    }
}

section! {
    /// How the gateway is reached and what it shows.
    Aggregator {
        /// The port to listen on; zero for any that is free.
        port: u16 = 8090, "port", "Port";
        /// The address to listen on.
        host: String = "localhost".to_owned(), "host", "Host";
        /// What clients speak.
        transport: Transport = Transport::StreamableHttp, "transport", "Transport";
        /// What the names of backends' tools begin with; empty means `x`.
        muster_prefix: String = String::new(), "musterPrefix", "MusterPrefix";
        /// Logins, in both directions.
        oauth: OAuth = OAuth::default(), "oauth", "OAuth";
    }
}

section! {
    /// Logins, in both directions.
    OAuth {
        /// Towards backends.
        mcp_client: McpClient = McpClient::default(), "mcpClient", "MCPClient";
        /// Of the gateway's own clients.
        server: OAuthServer = OAuthServer::default(), "server", "Server";
    }
}

section! {
    /// The gateway as a client of protected backends.
    McpClient {
        /// Whether this role is played.
        enabled: bool = false, "enabled", "Enabled";
        /// Where browsers reach the gateway.
        public_url: String = String::new(), "publicUrl", "PublicURL";
        /// The client's id; empty for the address of our own metadata document.
        client_id: String = String::new(), "clientId", "ClientID";
        /// The secret of an id that was registered beforehand.
        client_secret: Secret = Secret::default(), "clientSecret", "ClientSecret";
        /// A file that holds it.
        client_secret_file: String = String::new(), "clientSecretFile", "ClientSecretFile";
        /// The issuer where that id was registered; others are not shown it.
        client_issuer: String = String::new(), "clientIssuer", "ClientIssuer";
        /// Where browsers come back to.
        callback_path: String = "/oauth/proxy/callback".to_owned(), "callbackPath", "CallbackPath";
        /// Our own metadata document.
        cimd: Cimd = Cimd::default(), "cimd", "CIMD";
        /// Certificates to trust beside the system's.
        ca_file: String = String::new(), "caFile", "CAFile";
    }
}

section! {
    /// The document that describes the gateway as an OAuth client.
    Cimd {
        /// Its path.
        path: String = "/.well-known/oauth-client.json".to_owned(), "path", "Path";
        /// What it asks for; empty for the usual.
        scopes: String = String::new(), "scopes", "Scopes";
    }
}

section! {
    /// The gateway protected by OAuth.
    OAuthServer {
        /// Whether it is.
        enabled: bool = false, "enabled", "Enabled";
        /// The issuer of its tokens.
        base_url: String = String::new(), "baseUrl", "BaseURL";
        /// Who knows the users: `dex` or `google`.
        provider: String = "dex".to_owned(), "provider", "Provider";
        /// Dex.
        dex: Dex = Dex::default(), "dex", "Dex";
        /// Google.
        google: Google = Google::default(), "google", "Google";
        /// Where logins are kept.
        storage: Storage = Storage::default(), "storage", "Storage";
        /// What registering a client needs.
        registration_token: Secret = Secret::default(), "registrationToken", "RegistrationToken";
        /// A file that holds it.
        registration_token_file: String = String::new(), "registrationTokenFile", "RegistrationTokenFile";
        /// Whether anybody may register a client.
        allow_public_client_registration: bool = false, "allowPublicClientRegistration", "AllowPublicClientRegistration";
        /// What logins are encrypted with.
        encryption_key: Secret = Secret::default(), "encryptionKey", "EncryptionKey";
        /// A file that holds it.
        encryption_key_file: String = String::new(), "encryptionKeyFile", "EncryptionKeyFile";
        /// Schemes of redirect addresses that anybody may register.
        trusted_public_registration_schemes: Vec<String> = Vec::new(), "trustedPublicRegistrationSchemes", "TrustedPublicRegistrationSchemes";
        /// Whether clients may be described by a document.
        enable_cimd: bool = true, "enableCIMD", "EnableCIMD";
        /// Whether redirects to the user's own machine are allowed.
        allow_localhost_redirect_uris: bool = true, "allowLocalhostRedirectURIs", "AllowLocalhostRedirectURIs";
        /// Origins whose browsers may ask.
        allowed_origins: String = String::new(), "allowedOrigins", "AllowedOrigins";
        /// How long a login lasts.
        session_duration: String = "720h".to_owned(), "sessionDuration", "SessionDuration";
        /// What the protected resource is called beside its address.
        resource_identifier: String = String::new(), "resourceIdentifier", "ResourceIdentifier";
        /// Further clients of the provider whose ID tokens are taken.
        trusted_audiences: Vec<String> = Vec::new(), "trustedAudiences", "TrustedAudiences";
        /// Others whose signed tokens are taken.
        trusted_issuers: Vec<TrustedIssuer> = Vec::new(), "trustedIssuers", "TrustedIssuers";
        /// Networks of proxies that say whom they speak for.
        trusted_proxy_cidrs: Vec<String> = Vec::new(), "trustedProxyCIDRs", "TrustedProxyCIDRs";
        /// Redirect addresses that anybody may register.
        trusted_public_registration_redirect_uris: Vec<String> = Vec::new(), "trustedPublicRegistrationRedirectURIs", "TrustedPublicRegistrationRedirectURIs";
        /// Kept for old files.
        enable_hsts: bool = false, "enableHSTS", "EnableHSTS";
        /// Kept for old files.
        tls_cert_file: String = String::new(), "tlsCertFile", "TLSCertFile";
        /// Kept for old files.
        tls_key_file: String = String::new(), "tlsKeyFile", "TLSKeyFile";
    }
}

section! {
    /// Someone whose signed tokens are taken.
    TrustedIssuer {
        /// Their address.
        issuer: String = String::new(), "issuer", "Issuer";
        /// For whom the tokens must be.
        audiences: Vec<String> = Vec::new(), "audiences", "Audiences";
        /// The audiences that its tokens may have; without any, only those of this gateway.
        allowed_audiences: Vec<String> = Vec::new(), "allowedAudiences", "AllowedAudiences";
    }
}

section! {
    /// Dex as the one who knows the users.
    Dex {
        /// Its address.
        issuer_url: String = String::new(), "issuerUrl", "IssuerURL";
        /// Our id there.
        client_id: String = String::new(), "clientId", "ClientID";
        /// Our secret there.
        client_secret: Secret = Secret::default(), "clientSecret", "ClientSecret";
        /// A file that holds it.
        client_secret_file: String = String::new(), "clientSecretFile", "ClientSecretFile";
        /// The connector to go to at once.
        connector_id: String = String::new(), "connectorId", "ConnectorID";
        /// Certificates to trust beside the system's.
        ca_file: String = String::new(), "caFile", "CAFile";
        /// Whether it may be in a private network.
        allow_private_ip_oidc: bool = false, "allowPrivateIPOIDC", "AllowPrivateIPOIDC";
    }
}

section! {
    /// Google as the one who knows the users.
    Google {
        /// Our id there.
        client_id: String = String::new(), "clientId", "ClientID";
        /// Our secret there.
        client_secret: Secret = Secret::default(), "clientSecret", "ClientSecret";
        /// A file that holds it.
        client_secret_file: String = String::new(), "clientSecretFile", "ClientSecretFile";
    }
}

section! {
    /// Where logins are kept.
    Storage {
        /// `memory` or `valkey`.
        kind: String = "memory".to_owned(), "type", "Type";
        /// Valkey.
        valkey: Valkey = Valkey::default(), "valkey", "Valkey";
    }
}

section! {
    /// A Valkey server.
    Valkey {
        /// Its address.
        url: String = String::new(), "url", "URL";
        /// Its password.
        password: Secret = Secret::default(), "password", "Password";
        /// A file that holds it.
        password_file: String = String::new(), "passwordFile", "PasswordFile";
        /// Whether it is reached by TLS.
        tls_enabled: bool = false, "tlsEnabled", "TLSEnabled";
        /// What its certificate must name, if not the host of its address.
        tls_server_name: String = String::new(), "tlsServerName", "TLSServerName";
        /// What our keys begin with; empty means `muster:`.
        key_prefix: String = String::new(), "keyPrefix", "KeyPrefix";
        /// Its database.
        db: u16 = 0, "db", "DB";
    }
}

/// Reads `config.yaml`. An empty file is a file of defaults.
pub fn parse(text: &str) -> Result<Loaded<Settings>, LoadError> {
    if yaml::parse(text)?.to_value() == Value::Null {
        return Ok(Loaded { value: Settings::default(), warnings: Vec::new() });
    }
    load(text, |reader, node| Settings::default().read(reader, node))
}

impl Settings {
    /// The file that says the same: what differs from the defaults, and how the gateway is reached.
    pub fn text(&self) -> String {
        let usual = ["port", "host", "transport"];
        let Value::Map(mut pairs) = self.changed() else { return String::new() };
        let text = |text: &str| Value::Text(text.to_owned());
        let Value::Map(all) = self.aggregator.value() else { return String::new() };
        let Value::Map(changed) = self.aggregator.changed() else { return String::new() };
        let is = |pair: &(Value, Value), names: &[&str]| {
            pair.0.as_text().is_some_and(|key| names.contains(&key))
        };
        let mut aggregator: Vec<_> = all.into_iter().filter(|pair| is(pair, &usual)).collect();
        aggregator.extend(changed.into_iter().filter(|pair| !is(pair, &usual)));
        pairs.retain(|pair| !is(pair, &["aggregator"]));
        pairs.push((text("aggregator"), Value::Map(aggregator)));
        writer::document(&pairs)
    }

    /// What `core_config_get` shows; secrets are hidden.
    pub fn view(&self) -> Json {
        Part::view(self)
    }

    /// The namespace that resources belong to.
    pub fn namespace(&self) -> &str {
        if self.namespace.is_empty() { "default" } else { &self.namespace }
    }
}

impl Aggregator {
    /// What the names of backends' tools begin with.
    pub fn prefix(&self) -> &str {
        if self.muster_prefix.is_empty() { "x" } else { &self.muster_prefix }
    }

    /// What `core_config_get_aggregator` shows; secrets are hidden.
    pub fn view(&self) -> Json {
        Part::view(self)
    }

    /// The section with what a JSON object says in place of what it said before. The case of keys
    /// does not matter, and a hidden secret stays what it was.
    pub fn updated(&self, json: &str) -> Result<Loaded<Self>, LoadError> {
        let mut keys = Vec::new();
        Self::keys(&mut keys);
        load(json, |reader, node| self.clone().read(reader, &fold_case(node, &keys)))
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
