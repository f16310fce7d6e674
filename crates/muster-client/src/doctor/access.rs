//! Checks of the settings that decide who may use and change the gateway.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use muster_auth::{access::tokens::TokenFile, clock::Clock};
use muster_config::{
    kinds::DefinitionKind,
    settings::{AccessMode, BundledClis, HistoryArguments, Settings},
};
use muster_engine::store::Files;
use muster_net::Url;

use super::{
    Finding, Hop, addresses,
    exposure::{has_inline_secrets, has_secret_variables},
    repair::Repair,
};
use crate::remote::target::Target;

/// Checks the settings, tokens and file permissions that decide about access.
pub(super) fn check(root: &Path, files: &Files) -> Vec<Finding> {
    let mut findings = settings_findings(root, &files.settings);
    findings.extend(token_findings(root));
    findings.extend(file_findings(root, files));
    findings
}

fn settings_findings(root: &Path, settings: &Settings) -> Vec<Finding> {
    let file = root.join("config.yaml").display().to_string();
    let found = caller_findings(settings).chain(data_findings(settings));
    found
        .chain(addresses::findings(settings))
        .chain(login_findings(settings))
        .map(|(code, message, fix)| Finding::warning(Hop::Config, code, &file, message).fix(fix))
        .collect()
}

/// Settings that admit more callers than necessary, or give callers more rights than necessary.
fn caller_findings(
    settings: &Settings,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let (access, server) = (&settings.access, &settings.aggregator.oauth.server);
    let lists = [&access.allowed_users, &access.allowed_groups, &access.allowed_domains];
    let has_lists = lists.iter().any(|list| !list.is_empty());
    let every_origin = server.allowed_origins.split([',', ' ']).any(|origin| origin == "*");
    let found = [
        (access.mode == AccessMode::Open).then_some((
            "access-open",
            "`access.mode: open` lets every process on this machine change the gateway",
            "remove it; commands of your own user are operators without it",
        )),
        access.insecure_bind.then_some((
            "insecure-bind",
            "`access.insecureBind` lets anyone who reaches the gateway's address call tools",
            "require logins, or create tokens with `muster token create`, and remove it",
        )),
        (server.enabled && server.provider == "google" && !has_lists).then_some((
            "everybody-may-log-in",
            "everybody with a Google account may log in",
            "set `access.allowedDomains` or `access.allowedUsers`",
        )),
        access.allowed_hosts.iter().any(|host| host == "*").then_some((
            "any-host",
            "`access.allowedHosts: ['*']` lets web pages reach the gateway under names of their own",
            "name the hosts by which clients reach it",
        )),
        (server.enabled && every_origin).then_some((
            "any-origin",
            "`aggregator.oauth.server.allowedOrigins: '*'` lets every web page send requests",
            "name the origins of the pages that use the gateway",
        )),
        (server.enabled && server.allow_public_client_registration).then_some((
            "public-registration",
            "`aggregator.oauth.server.allowPublicClientRegistration` lets everybody who reaches the gateway register an \
             OAuth client with a name of their choice",
            "remove it: clients with a metadata document need no registration, and others can send `registrationToken`",
        )),
        (settings.aggregator.limits.concurrent_calls == 0).then_some((
            "calls-unlimited",
            "`aggregator.limits.concurrentCalls: 0` lets one caller use the gateway's whole capacity",
            "remove it, or set the number of calls that one caller may run at a time",
        )),
        (settings.clis.bundled == BundledClis::All).then_some((
            "all-bundled-clis",
            "`clis.bundled: all` offers agents tools that write, run code and reach the network",
            "remove it, and enable the CLIs that you need: `muster enable cli NAME`",
        )),
    ];
    found.into_iter().flatten()
}

/// Settings that expose data, or store more of it than necessary.
fn data_findings(
    settings: &Settings,
) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let traces = &settings.traces.endpoint;
    let found = [
        settings.metrics.loopback.then_some((
            "metrics-for-all",
            "`metrics.loopback` shows the names of tools and servers, and how they are used, to every process on this \
             machine",
            "remove it, and name a token in `metrics.tokens`",
        )),
        (settings.history.enabled && settings.history.arguments == HistoryArguments::Full).then_some((
            "history-with-secrets",
            "`history.arguments: full` stores secrets that are in arguments and error texts",
            "set `history.arguments: redacted`",
        )),
        (traces.starts_with("http://") && !Target::at(traces).is_local()).then_some((
            "traces-unencrypted",
            "`traces.endpoint` receives the names of tools, servers and users without encryption",
            "use an `https` address, or a collector on this machine",
        )),
    ];
    found.into_iter().flatten()
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

fn file_findings(root: &Path, files: &Files) -> Vec<Finding> {
    let mode = |path: &PathBuf| fs::metadata(path).map(|found| found.mode() & 0o777).ok();
    let entries = |name: &str| {
        let read = fs::read_dir(root.join(name)).into_iter().flatten().flatten();
        read.map(|entry| entry.path()).filter(|path| path.is_file())
    };
    let config = root.join("config.yaml");
    let mut private = files_below(&root.join("secrets"), SECRET_DEPTH);
    private.extend(files.settings.secret_files().map(|file| root.join(file)));
    private.extend(has_secrets(&files.settings).then(|| config.clone()));
    let servers = files.servers.values().filter(|file| has_inline_secrets(&file.server.spec));
    private.extend(servers.map(|file| file.path.clone()));
    let clis = files.clis.iter().flatten().filter(|(_, config)| has_secret_variables(config));
    private.extend(clis.map(|(path, _)| path.clone()));
    private.sort();
    private.dedup();
    let readable =
        private.into_iter().filter(|path| mode(path).is_some_and(|mode| mode & 0o077 != 0));
    let mut findings: Vec<Finding> = readable
        .map(|path| {
            let repair = Repair::Mode { path: path.clone(), mode: 0o600 };
            let path = path.display().to_string();
            let message = "other users can read the secrets in this file";
            Finding::warning(Hop::Config, "secret-readable", &path, message)
                .fix(format!("chmod 600 {path}"))
                .repair(Some(repair))
        })
        .collect();
    let folders = DefinitionKind::ALL.map(DefinitionKind::folder).into_iter().chain(["secrets"]);
    let mut written = vec![root.to_path_buf(), config];
    for folder in folders {
        written.push(root.join(folder));
        written.extend(entries(folder));
    }
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

/// How deep files of secrets may be in their folder: `NAMESPACE/NAME/KEY`, and one more.
const SECRET_DEPTH: usize = 4;

/// The files in a folder and the folders below it.
fn files_below(folder: &Path, depth: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if depth > 1 {
                found.extend(files_below(&path, depth - 1));
            }
        } else if path.is_file() {
            found.push(path);
        }
    }
    found
}

/// Whether the settings contain secrets instead of references to files.
fn has_secrets(settings: &Settings) -> bool {
    let (server, client) =
        (&settings.aggregator.oauth.server, &settings.aggregator.oauth.mcp_client);
    let secrets = [
        &client.client_secret,
        &server.dex.client_secret,
        &server.google.client_secret,
        &server.registration_token,
        &server.encryption_key,
        &server.storage.valkey.password,
        &settings.replicas.valkey.password,
        &settings.replicas.encryption_key,
    ];
    secrets.into_iter().any(|secret| !secret.reveal().is_empty())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

    use muster_auth::{access::tokens::TokenFile, clock::Clock};
    use muster_config::settings;
    use muster_core::caller_directory::TokenDraft;
    use muster_engine::store::{ConfigStore, Files};

    use super::{Finding, check};

    fn examined(root: &Path) -> Vec<Finding> {
        check(root, &ConfigStore::new(root).load(&Files::default()))
    }

    #[test]
    fn unsafe_settings_are_found() {
        let root = tempfile::tempdir().unwrap();
        let messages = |text: &str| -> Vec<String> {
            let settings = settings::parse(text).unwrap().value;
            let files = Files { settings: Arc::new(settings), ..Files::default() };
            check(root.path(), &files).into_iter().map(|finding| finding.message).collect()
        };
        assert_eq!(messages("{}"), Vec::<String>::new());
        let found = messages("access: {mode: open, insecureBind: true}");
        assert_eq!(found.len(), 2, "{found:?}");
        let google = "aggregator: {oauth: {server: {enabled: true, provider: google}}}";
        assert_eq!(messages(google), ["everybody with a Google account may log in"]);
        let listed = format!("{google}\naccess: {{allowedDomains: [example.com]}}");
        assert_eq!(messages(&listed), Vec::<String>::new());

        let server =
            |more: &str| format!("aggregator: {{oauth: {{server: {{enabled: true, {more}}}}}}}");
        for (text, message) in [
            ("access: {allowedHosts: ['*']}".to_owned(), "under names of their own"),
            ("clis: {bundled: all}".to_owned(), "run code"),
            ("aggregator: {limits: {concurrentCalls: 0}}".to_owned(), "one caller"),
            ("metrics: {loopback: true}".to_owned(), "every process on this machine"),
            ("history: {arguments: full}".to_owned(), "stores secrets"),
            ("traces: {endpoint: 'http://traces.example:4318'}".to_owned(), "without encryption"),
            (server("allowedOrigins: 'https://a, *'"), "every web page"),
            (server("allowPublicClientRegistration: true"), "register an OAuth client"),
            (server("storage: {type: valkey}"), "in Valkey without encryption"),
            (
                "aggregator: {oauth: {mcpClient: {enabled: true, clientSecretFile: s}}}".to_owned(),
                "every issuer",
            ),
            (
                "aggregator: {oauth: {mcpClient: {enabled: true, publicUrl: 'https://a'}, server: {enabled: true, \
                 baseUrl: 'https://b'}}}"
                    .to_owned(),
                "anybody's browser",
            ),
        ] {
            let found = messages(&text);
            assert!(found.len() == 1 && found[0].contains(message), "{text}: {found:?}");
        }
        for text in [
            "history: {enabled: false, arguments: full}".to_owned(),
            "traces: {endpoint: 'http://localhost:4318'}".to_owned(),
            "traces: {endpoint: 'https://traces.example'}".to_owned(),
            server("encryptionKeyFile: key, storage: {type: valkey}"),
        ] {
            assert_eq!(messages(&text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn tokens_without_an_end_are_found() {
        let root = tempfile::tempdir().unwrap();
        let draft = TokenDraft { name: "ci".to_owned(), ..TokenDraft::default() };
        TokenFile::of(root.path(), Clock::system()).create(&draft).unwrap();
        let messages: Vec<String> =
            examined(root.path()).into_iter().map(|finding| finding.message).collect();
        assert_eq!(messages, ["the token `ci` does not expire"]);
    }

    #[test]
    fn files_that_others_can_read_or_write_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let write = |name: &str, text: &str, mode: u32| {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let secret =
            "aggregator: {oauth: {server: {dex: {clientSecret: s}, encryptionKeyFile: key}}}";
        write("config.yaml", secret, 0o644);
        write("key", "k", 0o640);
        write("secrets/read", "x", 0o644);
        write("secrets/kept", "x", 0o600);
        write("secrets/dex/client/secret", "x", 0o644);
        write(
            "mcpservers/secret.yaml",
            "url: 'https://h.example/mcp'\nheaders: {X-Api-Key: k}\n",
            0o644,
        );
        write("mcpservers/embedded.yaml", "command: 'true'\nargs: ['postgres://a:b@h/x']\n", 0o604);
        write("mcpservers/private.yaml", "command: 'true'\nenv: {API_KEY: k}\n", 0o600);
        write(
            "mcpservers/plain.yaml",
            "command: 'true'\nenv: {API_KEY: 'secret://kept', A: b}\n",
            0o644,
        );
        let cli = |env: &str| format!("command: 'true'\nenv: {env}\ntools: []\n");
        write("clis/secret.yaml", &cli("{API_TOKEN: k}"), 0o644);
        write("clis/plain.yaml", &cli("{NO_COLOR: '1'}"), 0o644);
        write("toolsets/t.yaml", "tools: ['*']\n", 0o646);
        let found = || {
            let found = examined(root).into_iter().map(|finding| {
                let subject = Path::new(&finding.subject).strip_prefix(root).unwrap();
                (finding.code, subject.display().to_string(), finding.repair)
            });
            found.collect::<Vec<_>>()
        };
        let shown: Vec<(&str, String)> =
            found().into_iter().map(|(code, subject, _)| (code, subject)).collect();
        let readable = [
            "clis/secret.yaml",
            "config.yaml",
            "key",
            "mcpservers/embedded.yaml",
            "mcpservers/secret.yaml",
            "secrets/dex/client/secret",
            "secrets/read",
        ];
        let mut expected: Vec<(&str, String)> =
            readable.map(|file| ("secret-readable", file.to_owned())).into();
        expected.push(("config-writable", "toolsets/t.yaml".to_owned()));
        assert_eq!(shown, expected);
        for (_, _, repair) in found() {
            repair.unwrap().apply().unwrap();
        }
        assert_eq!(found(), []);
    }
}
