//! The token exchange broker.

use std::collections::BTreeMap;

use super::setting::section;

section! {
    /// The token exchange broker: clients exchange tokens of `trustedIssuers` for tokens of other issuers.
    TokenExchangeBroker {
        /// The audiences that each client may request, by client ID
        client_audiences: BTreeMap<String, Vec<String>>, "clientAudiences", "ClientAudiences";
        /// Clients of the broker that need no registration, by client ID
        broker_clients: BTreeMap<String, BrokerClient>, "brokerClients", "BrokerClients";
        /// Where the tokens for an audience come from; the broker is on if there is one
        targets: BTreeMap<String, BrokerTarget>, "targets", "Targets";
        /// Whether targets may be at private addresses
        allow_private_ip: bool, "allowPrivateIP", "AllowPrivateIP";
    }
}

section! {
    /// A client of the token exchange broker.
    BrokerClient {
        /// Its secret
        client_credentials_secret_ref: BrokerSecretRef, "clientCredentialsSecretRef", "ClientCredentialsSecretRef";
        /// Accepted for compatibility, without effect: the target sets the scopes
        scopes: Vec<String>, "scopes", "Scopes";
    }
}

section! {
    /// An issuer of tokens for one audience.
    BrokerTarget {
        /// Its token endpoint, an `https` URL
        dex_token_endpoint: String, "dexTokenEndpoint", "DexTokenEndpoint";
        /// The issuer of its tokens; empty for the token endpoint without `/token`
        expected_issuer: String, "expectedIssuer", "ExpectedIssuer";
        /// The connector of Dex that validates tokens
        connector_id: String, "connectorId", "ConnectorID";
        /// The scopes of its tokens, separated by spaces; empty for `openid profile email groups`
        scopes: String, "scopes", "Scopes";
        /// The gateway's client ID and secret there
        client_credentials_secret_ref: BrokerSecretRef, "clientCredentialsSecretRef", "ClientCredentialsSecretRef";
    }
}

section! {
    /// A secret with a client ID and a client secret: a folder in `secrets`, with a file for each key.
    BrokerSecretRef {
        /// Its name
        name: String, "name", "Name";
        /// Its namespace, a folder above it
        namespace: String, "namespace", "Namespace";
        /// The key of the client ID; empty for `client-id`
        client_id_key: String, "clientIdKey", "ClientIDKey";
        /// The key of the client secret; empty for `client-secret`
        client_secret_key: String, "clientSecretKey", "ClientSecretKey";
    }
}
