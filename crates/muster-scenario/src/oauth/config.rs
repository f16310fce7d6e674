//! The configuration of mock providers and of servers protected by them.

use std::time::Duration;

use muster_config::yaml::Node;

use crate::{
    load::node::{Diagnostics, Fields, boolean, json, span, text, texts},
    scenario::TrustedMock,
};

/// The default token lifetime.
const LIFETIME: Duration = Duration::from_secs(3600);

/// The configuration of a mock provider.
#[derive(Debug, Clone)]
pub struct MockProviderConfig {
    /// Its name.
    pub name: String,
    /// The path of its issuer URL; empty if the issuer is an origin.
    pub path: String,
    /// The supported scopes, granted by default.
    pub scopes: Vec<String>,
    /// The lifetime of its tokens.
    pub lifetime: Duration,
    /// The preregistered client.
    pub client_id: String,
    /// The secret of that client, if any.
    pub client_secret: Option<String>,
    /// The simulated error of its token endpoint.
    pub simulate_error: Option<String>,
    /// Token exchange: connector ids and the providers they trust.
    pub trusted: Vec<(String, String)>,
    /// Which clients it accepts.
    pub clients: Clients,
    /// Where its metadata is served.
    pub discovery: MetadataLocation,
    /// Optional behavior.
    pub features: Vec<Feature>,
}

/// Optional behavior of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Approves logins without a form.
    AutoApprove,
    /// Rejects clients without PKCE.
    PkceRequired,
    /// Lets the scenario advance its clock.
    MockClock,
    /// muster itself authenticates users with it.
    MusterIdp,
    /// Serves TLS.
    Tls,
    /// Signs ID tokens and publishes its keys.
    SignTokens,
    /// Binds tokens to the requested resource.
    BindResources,
    /// Servers accept ID tokens from a refresh. In the original they do not.
    AcceptRefreshedIdTokens,
    /// Names another issuer in its metadata.
    WrongIssuer,
    /// Omits PKCE from its metadata.
    HidePkce,
}

/// The clients that a provider accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clients {
    /// Any, as in the original. The metadata announces client metadata documents.
    Any,
    /// The preregistered client and dynamically registered ones.
    Dynamic,
    /// The preregistered client and those with a valid client metadata document.
    Metadata,
    /// The preregistered client only.
    Static,
}

/// The location of a provider's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetadataLocation {
    /// At every well-known path.
    All,
    /// `/.well-known/oauth-authorization-server`, before the path of the issuer.
    Oauth,
    /// `/.well-known/openid-configuration`, before the path of the issuer.
    Openid,
    /// `/.well-known/openid-configuration`, after the path of the issuer.
    OpenidAppended,
}

/// The authorization settings of a protected server.
#[derive(Debug, Clone, Default)]
pub struct GuardConfig {
    /// Whether a token is required.
    pub required: bool,
    /// The provider whose tokens it accepts.
    pub provider: Option<String>,
    /// The required scope.
    pub scope: Option<String>,
    /// Whether muster is configured to forward the caller's token.
    pub forward_token: bool,
    /// Audiences that muster is configured to request.
    pub required_audiences: Vec<String>,
    /// The required audience of a token.
    pub expected_audience: Option<String>,
    /// Token exchange settings for muster.
    pub exchange: Option<ExchangeConfig>,
    /// Where its challenge points for metadata.
    pub pointer: MetadataPointer,
}

/// The metadata that the challenge of a protected server points to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum MetadataPointer {
    /// To the issuer, where no document is; the document is at the root of the server. As in the original.
    #[default]
    Issuer,
    /// To the document, which is served only below the path of the server.
    Own,
    /// Nowhere; the document is at the root of the server.
    Absent,
}

/// Token exchange settings.
#[derive(Debug, Clone, Default)]
pub struct ExchangeConfig {
    /// The provider that exchanges tokens.
    pub provider: Option<String>,
    /// Its token endpoint, if it is not a mock.
    pub endpoint: Option<String>,
    /// The connector id.
    pub connector: Option<String>,
    /// The requested scopes.
    pub scopes: Option<String>,
    /// The required issuer of the new token.
    pub expected_issuer: Option<String>,
}

impl MockProviderConfig {
    /// A provider that grants every request.
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
            discovery: MetadataLocation::All,
            features: Vec::new(),
        }
    }

    /// Whether a feature is enabled.
    pub fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Whether it serves TLS: explicitly, or because another setting requires it.
    pub fn uses_tls(&self) -> bool {
        self.has(Feature::Tls) || self.has(Feature::MusterIdp) || !self.trusted.is_empty()
    }
}

/// Reads the configuration of a provider.
pub(crate) fn provider(
    node: &Node,
    path: &str,
    diagnostics: &mut Diagnostics,
) -> Option<MockProviderConfig> {
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
    let mut fields = Fields::open(node, path, diagnostics)?;
    let name = fields.required("name", diagnostics, "name is required");
    let mut config = MockProviderConfig::new(&name);
    if let Some(issuer) = fields.read("issuer", diagnostics, text) {
        match issuer.strip_suffix('/').unwrap_or(&issuer) {
            path if path.is_empty() || path.starts_with('/') => path.clone_into(&mut config.path),
            _ => diagnostics.warning(
                fields.line(),
                &fields.at("issuer"),
                "has no effect: the address is assigned at start; only a path such as `/tenant` is used",
            ),
        }
    }
    config.scopes = fields.read("scopes", diagnostics, texts).unwrap_or_default();
    config.lifetime = fields.read("token_lifetime", diagnostics, span).unwrap_or(LIFETIME);
    config.client_id = fields.read("client_id", diagnostics, text).unwrap_or_default();
    config.client_secret = fields.read("client_secret", diagnostics, text);
    config.simulate_error = fields.read("simulate_error", diagnostics, text);
    config.clients = fields.read("clients", diagnostics, clients).unwrap_or(Clients::Any);
    config.discovery =
        fields.read("discovery", diagnostics, discovery).unwrap_or(MetadataLocation::All);
    for (key, feature) in FLAGS {
        if fields.read(key, diagnostics, boolean).unwrap_or_default() {
            config.features.push(feature);
        }
    }
    for (path, node) in fields.items("trusted_issuers", diagnostics) {
        if let Some(mut fields) = Fields::open(node, &path, diagnostics) {
            let connector =
                fields.required("connector_id", diagnostics, "connector_id is required");
            let name =
                fields.required("oauth_server_ref", diagnostics, "oauth_server_ref is required");
            fields.finish(&[], diagnostics);
            config.trusted.push((connector, name));
        }
    }
    fields.finish(&[], diagnostics);
    Some(config)
}

fn clients(node: &Node) -> Result<Clients, String> {
    match text(node)?.as_str() {
        "any" => Ok(Clients::Any),
        "dynamic" => Ok(Clients::Dynamic),
        "metadata" => Ok(Clients::Metadata),
        "static" => Ok(Clients::Static),
        other => Err(format!("`{other}` is none of `any`, `dynamic`, `metadata` or `static`")),
    }
}

fn discovery(node: &Node) -> Result<MetadataLocation, String> {
    match text(node)?.as_str() {
        "all" => Ok(MetadataLocation::All),
        "oauth" => Ok(MetadataLocation::Oauth),
        "openid" => Ok(MetadataLocation::Openid),
        "openid-appended" => Ok(MetadataLocation::OpenidAppended),
        other => {
            Err(format!("`{other}` is none of `all`, `oauth`, `openid` and `openid-appended`"))
        }
    }
}

/// Reads a provider whose tokens muster accepts.
pub(crate) fn trusted(
    node: &Node,
    path: &str,
    diagnostics: &mut Diagnostics,
) -> Option<TrustedMock> {
    const SETTINGS: [(&str, &str); 4] = [
        ("allowed_audiences", "allowedAudiences"),
        ("allowed_claims", "allowedClaims"),
        ("subject_claim", "subjectClaim"),
        ("accepted_typ_headers", "acceptedTypHeaders"),
    ];
    let mut fields = Fields::open(node, path, diagnostics)?;
    let provider = fields.required("oauth_server_ref", diagnostics, "oauth_server_ref is required");
    let settings = SETTINGS
        .into_iter()
        .filter_map(|(key, setting)| Some((setting.to_owned(), fields.get(key).map(json)?)));
    let settings = settings.collect();
    fields.finish(&[], diagnostics);
    Some(TrustedMock { provider, settings })
}

/// Reads the authorization settings of a server.
pub(crate) fn guard(node: &Node, path: &str, diagnostics: &mut Diagnostics) -> Option<GuardConfig> {
    let mut fields = Fields::open(node, path, diagnostics)?;
    let mut guard = GuardConfig {
        required: fields.read("required", diagnostics, boolean).unwrap_or_default(),
        provider: fields.read("trust_issuer_ref", diagnostics, text).or(fields.read(
            "mock_oauth_server_ref",
            diagnostics,
            text,
        )),
        scope: fields.read("scope", diagnostics, text).filter(|scope| !scope.is_empty()),
        forward_token: fields.read("forward_token", diagnostics, boolean).unwrap_or_default(),
        required_audiences: fields
            .read("required_audiences", diagnostics, texts)
            .unwrap_or_default(),
        expected_audience: fields.read("expected_audience", diagnostics, text),
        exchange: None,
        pointer: fields.read("resource_metadata", diagnostics, pointer).unwrap_or_default(),
    };
    let path = fields.at("token_exchange");
    if let Some(node) = fields.get("token_exchange")
        && let Some(mut fields) = Fields::open(node, &path, diagnostics)
    {
        guard.exchange = Some(ExchangeConfig {
            provider: fields.read("oauth_server_ref", diagnostics, text),
            endpoint: fields.read("dex_token_endpoint", diagnostics, text),
            connector: fields.read("connector_id", diagnostics, text),
            scopes: fields.read("scopes", diagnostics, text),
            expected_issuer: fields.read("expected_issuer", diagnostics, text),
        });
        fields.finish(&[], diagnostics);
    }
    if guard.required && guard.provider.is_none() {
        diagnostics.error(
            node.line,
            &fields.at("mock_oauth_server_ref"),
            "required when `required` is true",
        );
    }
    fields.finish(&[], diagnostics);
    Some(guard)
}

fn pointer(node: &Node) -> Result<MetadataPointer, String> {
    match text(node)?.as_str() {
        "issuer" => Ok(MetadataPointer::Issuer),
        "own" => Ok(MetadataPointer::Own),
        "absent" => Ok(MetadataPointer::Absent),
        other => Err(format!("`{other}` is none of `issuer`, `own` and `absent`")),
    }
}
