//! What a scenario says about a mock provider, and about a server that asks for its tokens.

use std::time::Duration;

use muster_config::yaml::Node;

use crate::load::node::{Fields, Notes, span, text, texts, truth};

/// How long a token is good for, where nothing is said.
const LIFETIME: Duration = Duration::from_secs(3600);

/// A mock provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// Its name.
    pub name: String,
    /// The path of its issuer; empty for an issuer that is a whole origin.
    pub path: String,
    /// What it says it can grant, and grants if nothing is asked for.
    pub scopes: Vec<String>,
    /// How long its tokens are good for.
    pub lifetime: Duration,
    /// The client it knows from the beginning.
    pub client_id: String,
    /// The secret of that client, if it has one.
    pub client_secret: Option<String>,
    /// The error that its token endpoint answers everything with.
    pub simulate_error: Option<String>,
    /// Whose tokens it exchanges: connector, and the name of another provider.
    pub trusted: Vec<(String, String)>,
    /// Which clients it takes.
    pub clients: Clients,
    /// Where its metadata is found.
    pub discovery: Discovery,
    /// What else it does.
    pub features: Vec<Feature>,
}

/// What a provider may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Nobody has to press a button.
    AutoApprove,
    /// A client without PKCE is refused.
    PkceRequired,
    /// The scenario moves its clock.
    MockClock,
    /// muster itself logs people in with it.
    MusterIdp,
    /// It speaks TLS.
    Tls,
    /// Its ID tokens are signed, and its keys are published.
    SignTokens,
    /// Tokens are good only for the resource that they were asked for.
    BindResources,
    /// ID tokens that come with a refresh are accepted by servers. In the original they are not.
    AcceptRefreshedIdTokens,
    /// Its metadata names another issuer.
    WrongIssuer,
    /// Its metadata does not say that it knows PKCE.
    HidePkce,
}

/// Which clients a provider takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Any, as in the original. It says that it reads client metadata documents.
    Any,
    /// Its own, and those that register.
    Dynamic,
    /// Its own, and those whose metadata document it can read and agrees with.
    Metadata,
    /// Its own alone.
    Static,
}

/// Where the metadata of a provider is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// In every place.
    All,
    /// `/.well-known/oauth-authorization-server`, before the path of the issuer.
    Oauth,
    /// `/.well-known/openid-configuration`, before the path of the issuer.
    Openid,
    /// `/.well-known/openid-configuration`, after the path of the issuer.
    OpenidAppended,
}

/// What a protected server asks for.
#[derive(Debug, Clone, Default)]
pub struct GuardConfig {
    /// Whether it asks at all.
    pub required: bool,
    /// Whose tokens it takes.
    pub provider: Option<String>,
    /// The scope that a token must have.
    pub scope: Option<String>,
    /// Whether muster is told to pass on the caller's token.
    pub forward_token: bool,
    /// Audiences that muster is told to ask for.
    pub required_audiences: Vec<String>,
    /// The audience that a token must name.
    pub expected_audience: Option<String>,
    /// How muster is told to exchange the caller's token.
    pub exchange: Option<ExchangeConfig>,
    /// Where its challenge says that its metadata is.
    pub pointer: Pointer,
}

/// Where the challenge of a protected server points.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pointer {
    /// To the issuer, where nothing is; the document is at the root of the server. As in the original.
    #[default]
    Issuer,
    /// To the document, which is below the path of the server and nowhere else.
    Own,
    /// Nowhere; the document is at the root.
    Absent,
}

/// How a token is exchanged.
#[derive(Debug, Clone, Default)]
pub struct ExchangeConfig {
    /// The provider that exchanges.
    pub provider: Option<String>,
    /// Its token endpoint, if it is none of ours.
    pub endpoint: Option<String>,
    /// Which of its connectors.
    pub connector: Option<String>,
    /// The scopes that are asked for.
    pub scopes: Option<String>,
    /// Who must have issued the new token.
    pub expected_issuer: Option<String>,
}

impl ProviderConfig {
    /// One that grants what is asked for, to anybody.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            path: String::new(),
            scopes: Vec::new(),
            lifetime: LIFETIME,
            client_id: String::new(),
            client_secret: None,
            simulate_error: None,
            trusted: Vec::new(),
            clients: Clients::Any,
            discovery: Discovery::All,
            features: Vec::new(),
        }
    }

    /// Whether it does something.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether it speaks TLS, because it is told to or because what it does needs it.
    pub fn uses_tls(&self) -> bool {
        self.has(Feature::Tls) || self.has(Feature::MusterIdp) || !self.trusted.is_empty()
    }
}

/// Reads a provider.
pub(crate) fn provider(node: &Node, path: &str, notes: &mut Notes) -> Option<ProviderConfig> {
    const FLAGS: [(&str, Feature); 10] = [
        ("auto_approve", Feature::AutoApprove),
        ("pkce_required", Feature::PkceRequired),
        ("use_mock_clock", Feature::MockClock),
        ("use_as_muster_oauth_server", Feature::MusterIdp),
        ("use_tls", Feature::Tls),
        ("sign_tokens", Feature::SignTokens),
        ("bind_resources", Feature::BindResources),
        ("accept_refreshed_id_tokens", Feature::AcceptRefreshedIdTokens),
        ("wrong_issuer", Feature::WrongIssuer),
        ("hide_pkce", Feature::HidePkce),
    ];
    let mut fields = Fields::open(node, path, notes)?;
    let name = fields.required("name", notes, "name is required");
    let mut config = ProviderConfig::new(&name);
    if let Some(issuer) = fields.read("issuer", notes, text) {
        match issuer.strip_suffix('/').unwrap_or(&issuer) {
            path if path.is_empty() || path.starts_with('/') => path.clone_into(&mut config.path),
            _ => notes.warning(
                fields.line(),
                &fields.at("issuer"),
                "has no effect: the address is chosen at the start; a path such as `/tenant` is kept",
            ),
        }
    }
    config.scopes = fields.read("scopes", notes, texts).unwrap_or_default();
    config.lifetime = fields.read("token_lifetime", notes, span).unwrap_or(LIFETIME);
    config.client_id = fields.read("client_id", notes, text).unwrap_or_default();
    config.client_secret = fields.read("client_secret", notes, text);
    config.simulate_error = fields.read("simulate_error", notes, text);
    config.clients = fields.read("clients", notes, clients).unwrap_or(Clients::Any);
    config.discovery = fields.read("discovery", notes, discovery).unwrap_or(Discovery::All);
    for (key, feature) in FLAGS {
        if fields.read(key, notes, truth).unwrap_or_default() {
            config.features.push(feature);
        }
    }
    for (path, node) in fields.items("trusted_issuers", notes) {
        if let Some(mut fields) = Fields::open(node, &path, notes) {
            let connector = fields.required("connector_id", notes, "connector_id is required");
            let name = fields.required("oauth_server_ref", notes, "oauth_server_ref is required");
            fields.finish(&[], notes);
            config.trusted.push((connector, name));
        }
    }
    fields.finish(&[], notes);
    Some(config)
}

fn clients(node: &Node) -> Result<Clients, String> {
    match text(node)?.as_str() {
        "any" => Ok(Clients::Any),
        "dynamic" => Ok(Clients::Dynamic),
        "metadata" => Ok(Clients::Metadata),
        "static" => Ok(Clients::Static),
        other => Err(format!("`{other}` is none of `any`, `dynamic`, `metadata` and `static`")),
    }
}

fn discovery(node: &Node) -> Result<Discovery, String> {
    match text(node)?.as_str() {
        "all" => Ok(Discovery::All),
        "oauth" => Ok(Discovery::Oauth),
        "openid" => Ok(Discovery::Openid),
        "openid-appended" => Ok(Discovery::OpenidAppended),
        other => {
            Err(format!("`{other}` is none of `all`, `oauth`, `openid` and `openid-appended`"))
        }
    }
}

/// Reads what a server asks for.
pub(crate) fn guard(node: &Node, path: &str, notes: &mut Notes) -> Option<GuardConfig> {
    let mut fields = Fields::open(node, path, notes)?;
    let mut guard = GuardConfig {
        required: fields.read("required", notes, truth).unwrap_or_default(),
        provider: fields.read("mock_oauth_server_ref", notes, text),
        scope: fields.read("scope", notes, text).filter(|scope| !scope.is_empty()),
        forward_token: fields.read("forward_token", notes, truth).unwrap_or_default(),
        required_audiences: fields.read("required_audiences", notes, texts).unwrap_or_default(),
        expected_audience: fields.read("expected_audience", notes, text),
        exchange: None,
        pointer: fields.read("resource_metadata", notes, pointer).unwrap_or_default(),
    };
    let path = fields.at("token_exchange");
    if let Some(node) = fields.get("token_exchange")
        && let Some(mut fields) = Fields::open(node, &path, notes)
    {
        guard.exchange = Some(ExchangeConfig {
            provider: fields.read("oauth_server_ref", notes, text),
            endpoint: fields.read("dex_token_endpoint", notes, text),
            connector: fields.read("connector_id", notes, text),
            scopes: fields.read("scopes", notes, text),
            expected_issuer: fields.read("expected_issuer", notes, text),
        });
        fields.finish(&[], notes);
    }
    if guard.required && guard.provider.is_none() {
        notes.error(node.line, &fields.at("mock_oauth_server_ref"), "which provider's tokens?");
    }
    fields.finish(&[], notes);
    Some(guard)
}

fn pointer(node: &Node) -> Result<Pointer, String> {
    match text(node)?.as_str() {
        "issuer" => Ok(Pointer::Issuer),
        "own" => Ok(Pointer::Own),
        "absent" => Ok(Pointer::Absent),
        other => Err(format!("`{other}` is none of `issuer`, `own` and `absent`")),
    }
}
