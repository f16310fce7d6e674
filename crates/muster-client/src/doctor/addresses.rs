//! Checks of the settings that decide which addresses the gateway trusts and which it sends requests to.

use muster_config::settings::{Settings, Valkey};

use crate::remote::target::Target;

/// The shortest plausible prefix of a network of proxies: (IPv4, IPv6). A shorter prefix covers other people's
/// networks.
const LEAST_PREFIX: (u8, u8) = (8, 16);

/// Settings that trust too many addresses, or allow requests to private networks.
pub(super) fn findings(
    settings: &Settings,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let server = &settings.aggregator.oauth.server;
    let broker = &server.token_exchange_broker;
    let every_key = server.trusted_issuers.iter().any(|issuer| {
        issuer.allow_private_ip_jwks && issuer.allow_private_ip_jwks_hosts.is_empty()
    });
    let private_provider = server.provider == "dex" && server.dex.allow_private_ip_oidc;
    let web_schemes = server.trusted_public_registration_schemes.iter().any(|scheme| {
        ["http", "https"].contains(&&*scheme.trim_end_matches(':').to_ascii_lowercase())
    });
    let valkeys = valkeys(settings);
    let found = [
        (server.enabled && server.trusted_proxy_cidrs.iter().any(|range| is_wide(range)))
            .then_some((
                "any-proxy",
                "`aggregator.oauth.server.trustedProxyCIDRs` trusts every address, or nearly: clients choose the address by \
                 which they are limited and logged",
                "name the addresses of your proxies",
            )),
        (server.enabled && every_key).then_some((
            "any-private-address",
            "`allowPrivateIPJWKS` of an entry of `aggregator.oauth.server.trustedIssuers` lets the metadata of the issuer \
             send requests to every private address",
            "name the hosts of its keys and metadata in `allowPrivateIPJWKSHosts`",
        )),
        (server.enabled && private_provider).then_some((
            "private-provider",
            "`aggregator.oauth.server.dex.allowPrivateIPOIDC` lets the metadata of the identity provider send requests to \
             every private address",
            "remove it if the provider has a public address",
        )),
        (server.enabled && broker.allow_private_ip && !broker.targets.is_empty()).then_some((
            "private-targets",
            "`aggregator.oauth.server.tokenExchangeBroker.allowPrivateIP` lets targets send requests to every private \
             address",
            "remove it if all targets have public addresses",
        )),
        (server.enabled && web_schemes).then_some((
            "web-pages-register",
            "`http` and `https` in `aggregator.oauth.server.trustedPublicRegistrationSchemes` let everybody register an OAuth \
             client whose logins end at a page of theirs",
            "name the pages in `trustedPublicRegistrationRedirectURIs`",
        )),
        valkeys.iter().any(|valkey| is_remote(valkey) && !is_encrypted(valkey)).then_some((
            "valkey-unencrypted",
            "the password of Valkey is sent without encryption",
            "set `tlsEnabled: true` in its section",
        )),
        valkeys.iter().any(|valkey| is_remote(valkey) && !has_password(valkey)).then_some((
            "valkey-without-password",
            "Valkey has no password: any client that reaches it can read and change the state of the gateway",
            "set a password there, and `passwordFile` in its section",
        )),
    ];
    found.into_iter().flatten()
}

/// The Valkey servers in use. Replicas share the server of logins unless they have their own.
fn valkeys(settings: &Settings) -> Vec<&Valkey> {
    let server = &settings.aggregator.oauth.server;
    let of_logins = &server.storage.valkey;
    let of_replicas = match settings.replicas.valkey.url.as_str() {
        "" => of_logins,
        _ => &settings.replicas.valkey,
    };
    let logins = (server.enabled && server.storage.kind == "valkey").then_some(of_logins);
    logins.into_iter().chain(settings.replicas.enabled.then_some(of_replicas)).collect()
}

fn address(valkey: &Valkey) -> &str {
    valkey.url.rsplit_once("://").map_or(&*valkey.url, |(_, rest)| rest)
}

fn is_remote(valkey: &Valkey) -> bool {
    let address = address(valkey);
    !address.is_empty() && !Target::at(&format!("http://{address}")).is_local()
}

fn is_encrypted(valkey: &Valkey) -> bool {
    valkey.tls_enabled
        || valkey.url.starts_with("rediss://")
        || valkey.url.starts_with("valkeys://")
}

fn has_password(valkey: &Valkey) -> bool {
    let in_url = address(valkey).rsplit_once('@');
    !valkey.password.reveal().is_empty()
        || !valkey.password_file.is_empty()
        || in_url.is_some_and(|(user, _)| user.contains(':'))
}

/// Whether a network is too large to contain only proxies.
fn is_wide(range: &str) -> bool {
    let Some((network, bits)) = range.split_once('/') else { return false };
    let least = if network.contains(':') { LEAST_PREFIX.1 } else { LEAST_PREFIX.0 };
    bits.trim().parse::<u8>().is_ok_and(|bits| bits < least)
}

#[cfg(test)]
mod tests {
    use muster_config::settings;

    use super::findings;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let settings = settings::parse(text).unwrap().value;
        let codes: Vec<&str> = findings(&settings).map(|(code, ..)| code).collect();
        assert_eq!(codes, expected, "{text}");
    }

    #[test]
    fn settings_that_trust_or_reach_too_much_are_found() {
        let server =
            |more: &str| format!("aggregator: {{oauth: {{server: {{enabled: true, {more}}}}}}}");
        let off = |more: &str| format!("aggregator: {{oauth: {{server: {{{more}}}}}}}");
        let targets = "targets: {a: {dexTokenEndpoint: 'https://dex.example/token'}}";
        let broker = format!("tokenExchangeBroker: {{allowPrivateIP: true, {targets}}}");
        let quiet = "encryptionKeyFile: k, storage: {type: valkey, valkey:";
        let local = format!("{quiet} {{url: 'localhost:6379'}}}}");
        let plain = format!("{quiet} {{url: 'valkey.example:6379', passwordFile: p}}}}");
        let open = format!("{quiet} {{url: 'rediss://valkey.example'}}}}");
        let safe = format!("{quiet} {{url: 'rediss://u:p@valkey.example'}}}}");
        let issuer = "issuer: 'https://i.example', allowPrivateIPJWKS: true";
        for (text, expected) in [
            ("{}".to_owned(), [].as_slice()),
            (server("dex: {allowPrivateIPOIDC: true}"), &["private-provider"]),
            (server("provider: google, dex: {allowPrivateIPOIDC: true}"), &[]),
            (off("dex: {allowPrivateIPOIDC: true}"), &[]),
            (server(&broker), &["private-targets"]),
            (server(&format!("tokenExchangeBroker: {{{targets}}}")), &[]),
            (server("tokenExchangeBroker: {allowPrivateIP: true}"), &[]),
            (server(&format!("trustedIssuers: [{{{issuer}}}]")), &["any-private-address"]),
            (server(&format!("trustedIssuers: [{{{issuer}, allowPrivateIPJWKSHosts: [i]}}]")), &[]),
            (server("trustedProxyCIDRs: ['0.0.0.0/0']"), &["any-proxy"]),
            (server("trustedProxyCIDRs: ['10.1.2.0/24', '128.0.0.0/1']"), &["any-proxy"]),
            (server("trustedProxyCIDRs: ['2000::/3']"), &["any-proxy"]),
            (server("trustedProxyCIDRs: ['10.0.0.0/8', 'fd00::/64', '10.0.0.1']"), &[]),
            (server("trustedPublicRegistrationSchemes: [cursor, HTTPS]"), &["web-pages-register"]),
            (server("trustedPublicRegistrationSchemes: [cursor]"), &[]),
            (server(&local), &[]),
            (server(&plain), &["valkey-unencrypted"]),
            (server(&open), &["valkey-without-password"]),
            (server(&safe), &[]),
            (
                "replicas: {enabled: true, valkey: {url: 'redis://valkey.example'}}".to_owned(),
                &["valkey-unencrypted", "valkey-without-password"],
            ),
            (format!("replicas: {{enabled: true}}\n{}", off(&plain)), &["valkey-unencrypted"]),
        ] {
            check(&text, expected);
        }
    }
}
