//! Valid and invalid configurations.

use std::{fs, time::Duration};

use muster_config::settings::{self, OAuthServer};
use muster_core::secret_source::{SecretFuture, SecretSource};
use muster_net::{AddressPolicy, TrustStore};

use super::{AuthConfig, ClaimPattern, StorageConfig, load};
use crate::{client::SecretLocation, jwks::policy_of, secret::Secret};

const MINIMAL: &str =
    "baseUrl: https://muster.example\ndex: {issuerUrl: https://dex.example, clientId: m}\n";

fn read(keys: &str) -> Result<AuthConfig, String> {
    let indented: String = keys.lines().map(|line| format!("      {line}\n")).collect();
    let text = format!("aggregator:\n  oauth:\n    server:\n{indented}");
    let settings = settings::parse(&text).unwrap().value.aggregator.oauth.server;
    load_with(&settings, SecretLocation::default())
}

fn load_with(settings: &OAuthServer, secrets: SecretLocation<'_>) -> Result<AuthConfig, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let loaded = runtime.block_on(load(settings, TrustStore::system(), secrets));
    loaded.map_err(|error| error.to_string())
}

/// A cluster whose Secrets have the value `NAME KEY` for each key.
#[derive(Debug)]
struct Cluster;

impl SecretSource for Cluster {
    fn secrets<'a>(
        &'a self,
        _: &'a str,
        name: &'a str,
        keys: &'a [&'a str],
    ) -> SecretFuture<'a, Vec<Secret>> {
        let values = keys.iter().map(|key| Secret::new(format!("{name} {key}")));
        Box::pin(std::future::ready(Ok(values.collect())))
    }
}

#[test]
fn invalid_configurations() {
    let key = |text: &str| format!("{MINIMAL}{text}");
    for (keys, expected) in [
        ("provider: dex".to_owned(), "base URL cannot be empty"),
        (
            "baseUrl: http://muster.example".to_owned(),
            "OAuth 2.1 requires HTTPS for production (got: http://muster.example). Use HTTPS or localhost for development",
        ),
        ("baseUrl: ftp://x".to_owned(), "invalid URL scheme: ftp. Must be http (localhost only) or https"),
        ("baseUrl: https://a b".to_owned(), "`aggregator.oauth.server.baseUrl` cannot be used"),
        (key("provider: okta"), "unsupported OAuth provider: okta (supported: dex, google)"),
        (key("provider: google"), "`aggregator.oauth.server.google.clientId` is required"),
        ("baseUrl: https://m.example".to_owned(), "`aggregator.oauth.server.dex.issuerUrl` is required"),
        (
            "baseUrl: https://m.example\ndex: {issuerUrl: https://10.0.0.1}".to_owned(),
            "`10.0.0.1` leads to a network that requests may not go to",
        ),
        (key("storage: {type: disk}"), "unsupported OAuth storage type: disk (supported: memory, valkey)"),
        (key("storage: {type: valkey}"), "valkey URL is required when using valkey storage"),
        (key("encryptionKey: short"), "the encryption key must be 32 bytes"),
        (
            key("encryptionKeyFile: /nowhere/key"),
            "error resolving secret files: failed to read encryption key from /nowhere/key:",
        ),
        (
            key("registrationTokenFile: /nowhere/token"),
            "error resolving secret files: failed to read registration token from /nowhere/token:",
        ),
        (key("sessionDuration: soon"), "`aggregator.oauth.server.sessionDuration` is `soon`"),
        (key("trustedProxyCIDRs: [10.0.0.0/99]"), "`aggregator.oauth.server.trustedProxyCIDRs` has `10.0.0.0/99`"),
        (
            key("tokenExchangeBroker: {targets: {a: {dexTokenEndpoint: https://d.example/token}}}"),
            "tokenExchangeBroker requires at least one trustedIssuers entry to validate subject tokens",
        ),
        (
            key("trustedIssuers: [{issuer: https://i.example}]\ntokenExchangeBroker: {targets: {a: {connectorId: c}}}"),
            "tokenExchangeBroker target \"a\" requires dexTokenEndpoint (downstream Dex token endpoint)",
        ),
        (
            key("trustedIssuers: [{issuer: https://i.example}]\ntokenExchangeBroker: {targets: {a: {dexTokenEndpoint: https://10.0.0.1/token}}}"),
            "`10.0.0.1` leads to a network that requests may not go to",
        ),
        (
            key("trustedIssuers: [{issuer: https://i.example}]\ntokenExchangeBroker: {brokerClients: {c: {}}, targets: {a: {dexTokenEndpoint: https://d.example/token}}}"),
            "tokenExchangeBroker client \"c\" requires clientCredentialsSecretRef",
        ),
        (key("sessionDuration: 0h"), "`aggregator.oauth.server.sessionDuration` is `0h`"),
        (
            "baseUrl: https://m.example\ndex: {issuerUrl: https://d.example, clientId: m, caFile: /nowhere/ca}".to_owned(),
            "`/nowhere/ca` cannot be used",
        ),
    ] {
        let message = read(&keys).unwrap_err();
        assert!(message.contains(expected), "{keys}\n{message}");
    }
}

#[test]
fn valid_configurations() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    fs::write(&file, "  from-a-file\n").unwrap();
    let keys = format!(
        "{MINIMAL}registrationTokenFile: {}\nsessionDuration: 1h30m\nallowedOrigins: https://a.example, https://b.example\n\
         storage: {{type: valkey, valkey: {{url: \"v:6379\", passwordFile: {}}}}}\n",
        file.display(),
        file.display()
    );
    let loaded = read(&keys).unwrap();
    assert_eq!(loaded.server.registration_token.unwrap().reveal(), "from-a-file");
    assert_eq!(loaded.server.session_duration, Duration::from_secs(5400));
    assert_eq!(loaded.server.origins, ["https://a.example", "https://b.example"]);
    let StorageConfig::Valkey(valkey) = loaded.storage else { panic!("{:?}", loaded.storage) };
    assert_eq!(
        (valkey.prefix.as_str(), valkey.password.unwrap().reveal().as_str()),
        ("muster:", "from-a-file")
    );
    let local = read(
        "baseUrl: http://localhost:8090/\ndex: {issuerUrl: http://127.0.0.1:5556, clientId: m, allowPrivateIPOIDC: true}",
    );
    let local = local.unwrap().server;
    assert_eq!(
        (local.base_url.as_str(), local.provider.policy),
        ("http://localhost:8090", AddressPolicy::Private)
    );
    // A secret in the settings takes precedence over a file.
    let keys =
        format!("{MINIMAL}registrationToken: written\nregistrationTokenFile: {}\n", file.display());
    assert_eq!(read(&keys).unwrap().server.registration_token.unwrap().reveal(), "written");
}

#[test]
fn audiences_of_trusted_issuers() {
    let audiences = |keys: &str| {
        let keys = format!("{MINIMAL}trustedIssuers: [{{issuer: \"https://i.example\"{keys}}}]\n");
        read(&keys).unwrap().server.trusted_issuers.remove(0).audiences
    };
    assert_eq!(audiences(", allowedAudiences: [a, b]"), ["a", "b"]);
    assert_eq!(audiences(", audiences: [c]"), ["c"]);
    // Without a list, tokens must be for this gateway.
    assert_eq!(audiences(""), ["https://muster.example", "https://muster.example/mcp"]);
}

#[test]
fn hosts_of_keys_that_may_be_private() {
    let issuer = |keys: &str| {
        let keys = format!("{MINIMAL}trustedIssuers: [{{issuer: \"https://i.example\"{keys}}}]\n");
        read(&keys).map(|mut loaded| loaded.server.trusted_issuers.remove(0))
    };
    let at = "jwksUrl: \"https://10.0.0.7/keys\"";
    assert!(issuer(&format!(", {at}")).is_err());
    assert!(issuer(&format!(", {at}, allowPrivateIPJWKSHosts: [10.0.0.8]")).is_err());
    let named = issuer(&format!(", {at}, allowPrivateIPJWKSHosts: [10.0.0.7, Keys.Internal]"));
    let named = named.unwrap();
    let policy = |url: &str| policy_of(url, named.policy, &named.private_hosts);
    assert_eq!(policy("https://10.0.0.7/keys"), AddressPolicy::Private);
    assert_eq!(policy("https://keys.internal/keys"), AddressPolicy::Private);
    // A name that merely contains another one is a different host.
    assert_eq!(policy("https://keys.internal.example/keys"), AddressPolicy::Loopback);
    assert_eq!(policy("https://i.example/keys"), AddressPolicy::Loopback);
    assert_eq!(issuer(", allowPrivateIPJWKS: true").unwrap().policy, AddressPolicy::Private);
}

#[test]
fn claims_match_patterns() {
    let check = |pattern: &str, claim: &str, expect: bool| {
        assert_eq!(ClaimPattern::new(pattern).unwrap().matches(claim), expect, "{pattern} {claim}");
    };
    check("system:serviceaccount:*:agent-?", "system:serviceaccount:a/b:agent-1", true);
    check("system:serviceaccount:*:agent-?", "system:serviceaccount:a:agent-12", false);
    check("repo:org/*", "repo:org/x/y", true);
    check("repo:org/*", "repo:organ/x", false);
    check("[a]\\b", "[a]\\b", true);
    check("[a]", "a", false);
    check("*", "a\u{1}b", false);
    assert!(ClaimPattern::new("a\u{1}").is_none());
}

#[test]
fn the_broker_reads_its_secrets() {
    let folder = tempfile::tempdir().unwrap();
    for (name, id, secret) in [("agent", "ignored", "one"), ("dex", "gate", "two")] {
        let path = folder.path().join(name);
        fs::create_dir(&path).unwrap();
        fs::write(path.join("client-id"), id).unwrap();
        fs::write(path.join("client-secret"), format!("{secret}\n")).unwrap();
    }
    let text = "aggregator:\n  oauth:\n    server:\n      baseUrl: https://muster.example\n      \
                dex: {issuerUrl: https://dex.example, clientId: m}\n      \
                trustedIssuers: [{issuer: https://i.example}]\n      tokenExchangeBroker:\n        \
                clientAudiences: {ci: [cluster]}\n        \
                brokerClients: {ci: {clientCredentialsSecretRef: {name: agent}}}\n        targets:\n          \
                cluster: {dexTokenEndpoint: https://d.example/token, clientCredentialsSecretRef: {name: dex}}\n";
    let settings = settings::parse(text).unwrap();
    assert_eq!(settings.warnings.len(), 0, "{:?}", settings.warnings);
    let settings = settings.value.aggregator.oauth.server;
    let folder = SecretLocation { folder: Some(folder.path()), cluster: None };
    let broker = load_with(&settings, folder).unwrap().server.broker.unwrap();
    assert_eq!(broker.clients["ci"], crate::random::digest_of("one"));
    assert_eq!(broker.client_audiences["ci"], ["cluster"]);
    assert_eq!(broker.policy, AddressPolicy::Public);
    let target = &broker.targets["cluster"];
    assert_eq!(
        (target.client.id.as_str(), target.scopes.as_str()),
        ("gate", "openid profile email groups")
    );
    // If the secret is missing, loading fails.
    let error = load_with(&settings, SecretLocation::default()).unwrap_err();
    assert!(error.contains("tokenExchangeBroker: secret `dex` cannot be read"), "{error}");
    // In a cluster, the secrets are Kubernetes Secrets.
    let cluster = SecretLocation { cluster: Some(&Cluster), ..folder };
    let broker = load_with(&settings, cluster).unwrap().server.broker.unwrap();
    assert_eq!(broker.clients["ci"], crate::random::digest_of("agent client-secret"));
    assert_eq!(broker.targets["cluster"].client.id, "dex client-id");
}
