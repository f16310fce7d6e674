//! Authorization requests with PKCE.

use std::fmt;

use super::IssuerMetadata;
use crate::{
    random::{self, NoRandomness},
    secret::Secret,
};

/// The authorization request that a browser takes to an issuer.
#[derive(Debug, Clone, Copy)]
pub struct AuthorizationRequest<'a> {
    /// The issuer.
    pub issuer: &'a IssuerMetadata,
    /// The client's id there.
    pub client_id: &'a str,
    /// Where the issuer sends the browser back to.
    pub redirect_uri: &'a str,
    /// The resource that the token is for (RFC 8707).
    pub resource: &'a str,
    /// The requested scopes; empty for the issuer's default.
    pub scope: &'a str,
    /// The `prompt` parameter of OpenID Connect; `none` forbids any page.
    pub prompt: Option<&'a str>,
}

/// An authorization request that waits for its callback.
pub struct PendingAuthorization {
    /// The URL to open in a browser.
    pub url: String,
    /// Ties the callback to this request.
    pub state: String,
    /// The PKCE verifier, needed to redeem the code.
    pub verifier: Secret,
}

impl fmt::Debug for PendingAuthorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PendingAuthorization")
    }
}

impl AuthorizationRequest<'_> {
    /// Chooses a state and a PKCE verifier, and builds the URL.
    pub fn start(&self) -> Result<PendingAuthorization, NoRandomness> {
        let (state, verifier) = (random::token()?, random::token()?);
        let url = with_query(
            &self.issuer.authorization_endpoint,
            &[
                ("response_type", "code"),
                ("client_id", self.client_id),
                ("redirect_uri", self.redirect_uri),
                ("state", &state),
                ("code_challenge", &random::digest_of(&verifier)),
                ("code_challenge_method", "S256"),
                ("resource", self.resource),
                ("scope", self.scope),
                ("prompt", self.prompt.unwrap_or_default()),
            ],
        );
        Ok(PendingAuthorization { url, state, verifier: Secret::new(verifier) })
    }
}

/// Adds query parameters to a URL. Parameters without a value are left out.
pub(crate) fn with_query(url: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
    let query = query.finish();
    let (base, fragment) = url.split_once('#').map_or((url, None), |(b, f)| (b, Some(f)));
    let joint = match (base.contains('?'), base.ends_with(['?', '&'])) {
        (true, true) => "",
        (true, false) => "&",
        (false, _) => "?",
    };
    let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
    format!("{base}{joint}{query}{fragment}")
}
