//! Checks of who may use and change the gateway.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use muster_auth::{access::tokens::TokenFile, clock::Clock};
use muster_config::settings::{AccessMode, BundledClis, Settings};
use muster_net::Url;

use super::{Finding, Hop, repair::Repair};

/// Checks the settings, tokens and file permissions that decide about access.
pub(super) fn check(root: &Path, settings: &Settings) -> Vec<Finding> {
    let mut findings = settings_findings(root, settings);
    findings.extend(token_findings(root));
    findings.extend(file_findings(root));
    findings
}

fn settings_findings(root: &Path, settings: &Settings) -> Vec<Finding> {
    let file = root.join("config.yaml").display().to_string();
    let warning = |code, message: &str, fix: &str| {
        Finding::warning(Hop::Config, code, &file, message).fix(fix)
    };
    let (access, server) = (&settings.access, &settings.aggregator.oauth.server);
    let mut findings = Vec::new();
    if access.mode == AccessMode::Open {
        findings.push(warning(
            "access-open",
            "`access.mode: open` lets every process on this machine change the gateway",
            "remove it; commands of your own user are operators without it",
        ));
    }
    if access.insecure_bind {
        findings.push(warning(
            "insecure-bind",
            "`access.insecureBind` lets anyone who reaches the gateway's address call tools",
            "require logins, or create tokens with `muster token create`, and remove it",
        ));
    }
    let lists = [&access.allowed_users, &access.allowed_groups, &access.allowed_domains];
    if server.enabled && server.provider == "google" && lists.iter().all(|list| list.is_empty()) {
        findings.push(warning(
            "everybody-may-log-in",
            "everybody with a Google account may log in",
            "set `access.allowedDomains` or `access.allowedUsers`",
        ));
    }
    if access.allowed_hosts.iter().any(|host| host == "*") {
        findings.push(warning(
            "any-host",
            "`access.allowedHosts: ['*']` lets web pages reach the gateway under names of their own",
            "name the hosts by which clients reach it",
        ));
    }
    if server.enabled && server.allowed_origins.split([',', ' ']).any(|origin| origin == "*") {
        findings.push(warning(
            "any-origin",
            "`aggregator.oauth.server.allowedOrigins: '*'` lets every web page send requests",
            "name the origins of the pages that use the gateway",
        ));
    }
    if server.enabled && server.trusted_proxy_cidrs.iter().any(|range| range.ends_with("/0")) {
        findings.push(warning(
            "any-proxy",
            "`aggregator.oauth.server.trustedProxyCIDRs` trusts every address: clients choose the address by which they \
             are limited and logged",
            "name the addresses of your proxies",
        ));
    }
    if settings.aggregator.limits.concurrent_calls == 0 {
        findings.push(warning(
            "calls-unlimited",
            "`aggregator.limits.concurrentCalls: 0` lets one caller use the gateway's whole capacity",
            "remove it, or set the number of calls that one caller may run at a time",
        ));
    }
    if settings.clis.bundled == BundledClis::All {
        findings.push(warning(
            "all-bundled-clis",
            "`clis.bundled: all` offers agents tools that write, run code and reach the network",
            "remove it, and enable the CLIs that you need: `muster enable cli NAME`",
        ));
    }
    findings
        .extend(login_findings(settings).map(|(code, message, fix)| warning(code, message, fix)));
    findings
}

/// Unsafe settings of logins at servers, and of the storage of logins.
fn login_findings(
    settings: &Settings,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let (client, server) =
        (&settings.aggregator.oauth.mcp_client, &settings.aggregator.oauth.server);
    let host = |url: &str| Url::parse(url).ok().map(|url| url.host().to_owned());
    let is_unbound = client.enabled
        && server.enabled
        && !client.public_url.is_empty()
        && host(&client.public_url) != host(&server.base_url);
    let has_secret =
        !client.client_secret.reveal().is_empty() || !client.client_secret_file.is_empty();
    let is_unsealed = server.enabled
        && server.storage.kind == "valkey"
        && server.encryption_key.reveal().is_empty()
        && server.encryption_key_file.is_empty();
    let found = [
        is_unbound.then_some((
            "login-links-unbound",
            "links of logins at servers work in anybody's browser: `mcpClient.publicUrl` and `server.baseUrl` of \
             `aggregator.oauth` have different hosts",
            "use one host for both",
        )),
        (client.enabled && has_secret && client.client_issuer.is_empty()).then_some((
            "client-secret-for-all",
            "`aggregator.oauth.mcpClient.clientSecret` is sent to every issuer that a server names",
            "set `clientIssuer` to the issuer that it is registered at",
        )),
        is_unsealed.then_some((
            "logins-unencrypted",
            "tokens of users are stored in Valkey without encryption",
            "set `aggregator.oauth.server.encryptionKeyFile`",
        )),
    ];
    found.into_iter().flatten()
}

fn token_findings(root: &Path) -> Vec<Finding> {
    let file = TokenFile::of(root, Clock::system());
    let subject = file.path().display().to_string();
    match file.load() {
        Err(err) => vec![
            Finding::bad(
                Hop::Config,
                "tokens-unreadable",
                subject,
                format!("no token is accepted: {err}"),
            )
            .fix("make it a file that only its owner can write"),
        ],
        Ok(tokens) => {
            let endless = tokens.into_iter().filter(|token| token.expires.is_none());
            endless
                .map(|token| {
                    let message = format!("the token `{}` does not expire", token.name);
                    Finding::warning(Hop::Config, "token-without-end", &subject, message).fix(format!(
                        "replace it: `muster token revoke {0}`, then `muster token create {0} --expires 90d`",
                        token.name
                    ))
                })
                .collect()
        }
    }
}

fn file_findings(root: &Path) -> Vec<Finding> {
    let mode = |path: &PathBuf| fs::metadata(path).map(|found| found.mode() & 0o777).ok();
    let entries = |name: &str| {
        let read = fs::read_dir(root.join(name)).into_iter().flatten().flatten();
        read.map(|entry| entry.path()).filter(|path| path.is_file())
    };
    let mut secrets: Vec<PathBuf> = entries("secrets").collect();
    secrets.sort();
    let readable =
        secrets.into_iter().filter(|path| mode(path).is_some_and(|mode| mode & 0o077 != 0));
    let mut findings: Vec<Finding> = readable
        .map(|path| {
            let repair = Repair::Mode { path: path.clone(), mode: 0o600 };
            let path = path.display().to_string();
            let message = "other users can read this secret";
            Finding::warning(Hop::Config, "secret-readable", &path, message)
                .fix(format!("chmod 600 {path}"))
                .repair(Some(repair))
        })
        .collect();
    let folders = ["", "mcpservers", "clis", "policies", "workflows", "secrets"];
    let mut written: Vec<PathBuf> = folders.iter().map(|name| root.join(name)).collect();
    written.push(root.join("config.yaml"));
    for path in written {
        // A process that can write the configuration can run commands as the gateway's user.
        if let Some(mode) = mode(&path).filter(|mode| mode & 0o002 != 0) {
            let repair = Repair::Mode { path: path.clone(), mode: mode & !0o002 };
            let path = path.display().to_string();
            let fix = format!("chmod o-w {path}");
            let message = "every user of this machine can change the gateway";
            let found = Finding::bad(Hop::Config, "config-writable", path, message);
            findings.push(found.fix(fix).repair(Some(repair)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use muster_auth::{access::tokens::TokenFile, clock::Clock};
    use muster_config::settings;
    use muster_core::caller_directory::TokenDraft;

    use super::check;

    #[test]
    fn unsafe_settings_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let messages = |text: &str| -> Vec<String> {
            let settings = settings::parse(text).unwrap().value;
            check(root, &settings).into_iter().map(|finding| finding.message).collect()
        };
        assert_eq!(messages("{}"), Vec::<String>::new());
        let found = messages("access: {mode: open, insecureBind: true}");
        assert_eq!(found.len(), 2, "{found:?}");
        let google = "aggregator: {oauth: {server: {enabled: true, provider: google}}}";
        assert_eq!(messages(google), ["everybody with a Google account may log in"]);
        let listed = format!("{google}\naccess: {{allowedDomains: [example.com]}}");
        assert_eq!(messages(&listed), Vec::<String>::new());

        for (text, message) in [
            ("access: {allowedHosts: ['*']}", "under names of their own"),
            ("clis: {bundled: all}", "run code"),
            ("aggregator: {limits: {concurrentCalls: 0}}", "one caller"),
            (
                "aggregator: {oauth: {server: {enabled: true, trustedProxyCIDRs: ['0.0.0.0/0']}}}",
                "trusts every address",
            ),
            (
                "aggregator: {oauth: {server: {enabled: true, allowedOrigins: 'https://a, *'}}}",
                "every web page",
            ),
            (
                "aggregator: {oauth: {server: {enabled: true, storage: {type: valkey}}}}",
                "without encryption",
            ),
            ("aggregator: {oauth: {mcpClient: {enabled: true, clientSecret: s}}}", "every issuer"),
            (
                "aggregator: {oauth: {mcpClient: {enabled: true, publicUrl: 'https://a'}, server: {enabled: true, \
                 baseUrl: 'https://b'}}}",
                "anybody's browser",
            ),
        ] {
            let found = messages(text);
            assert!(found.len() == 1 && found[0].contains(message), "{text}: {found:?}");
        }

        let draft = TokenDraft { name: "ci".to_owned(), ..TokenDraft::default() };
        TokenFile::of(root, Clock::system()).create(&draft).unwrap();
        assert_eq!(messages("{}"), ["the token `ci` does not expire"]);
        fs::remove_file(root.join("tokens.json")).unwrap();

        fs::create_dir(root.join("secrets")).unwrap();
        fs::write(root.join("secrets/key"), "x").unwrap();
        fs::set_permissions(root.join("secrets/key"), fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(root.join("config.yaml"), "").unwrap();
        fs::set_permissions(root.join("config.yaml"), fs::Permissions::from_mode(0o666)).unwrap();
        assert_eq!(
            messages("{}"),
            [
                "other users can read this secret",
                "every user of this machine can change the gateway"
            ]
        );
    }
}
