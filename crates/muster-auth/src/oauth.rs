//! OAuth 2.1 as a client: challenges, discovery, authorization requests, callbacks, token requests.
//!
//! Both OAuth clients use it: the gateway at the servers behind it, and the command line at gateways.
//!
//! ```
//! use muster_auth::oauth::{BearerChallenge, CallbackParams};
//!
//! let challenge = BearerChallenge::parse(r#"Bearer scope="read", error_description="use scope=admin""#);
//! assert_eq!(challenge.scope.as_deref(), Some("read"));
//!
//! let params = CallbackParams::parse("code=c&state=s&iss=https%3A%2F%2Fissuer").unwrap();
//! assert_eq!(params.authorization_code("https://issuer", true).unwrap(), "c");
//! assert!(CallbackParams::parse("code=c&code=d&state=s").is_none());
//! ```

mod authorization;
mod callback;
mod challenge;
mod client_identity;
mod discovery;
mod metadata;
mod revocation;
mod token_endpoint;
mod token_exchange;
mod well_known;

pub(crate) use self::{
    authorization::with_query,
    client_identity::basic_credentials,
    token_endpoint::refusal,
    token_exchange::{
        ACCESS_TOKEN, DEFAULT_SCOPES, ExchangeError, ExchangeRequest, ID_TOKEN, TOKEN_EXCHANGE,
        unverified_claims,
    },
};
pub use self::{
    authorization::{AuthorizationRequest, PendingAuthorization},
    callback::{CallbackError, CallbackParams},
    challenge::BearerChallenge,
    client_identity::{ClientAuthMethod, ClientIdentity, RegistrationRequest, register},
    discovery::{Discovered, DiscoveryError, MetadataFetcher},
    metadata::{IssuerMetadata, ResourceMetadata},
    revocation::{RevocableToken, revoke},
    token_endpoint::{TokenEndpoint, TokenRequestError, TokenResponse},
    well_known::{covers_server, same_issuer},
};
