//! Valid and invalid configurations.

use std::{fs, time::Duration};

use muster_config::settings;
use muster_net::{AddressPolicy, TrustStore};

use super::{AuthConfig, StorageConfig, load};

const MINIMAL: &str =
    "baseUrl: https://muster.example\ndex: {issuerUrl: https://dex.example, clientId: m}\n";

fn read(keys: &str) -> Result<AuthConfig, String> {
    let indented: String = keys.lines().map(|line| format!("      {line}\n")).collect();
    let text = format!("aggregator:\n  oauth:\n    server:\n{indented}");
    let settings = settings::parse(&text).unwrap().value.aggregator.oauth.server;
    load(&settings, TrustStore::system()).map_err(|err| err.to_string())
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
