//! Checks of what policies and definitions of servers give away.

use muster_config::mcpserver::McpServerSpec;
use muster_engine::{
    redact,
    store::{Files, ServerFile},
    wide_grants,
};

use super::{Finding, Hop};
use crate::{remote::target::Target, secrets};

/// Checks policies and servers.
pub(super) fn check(files: &Files) -> Vec<Finding> {
    let policies = wide_grants::examined(files).into_iter().map(|grant| {
        let path = grant.path.display().to_string();
        Finding::warning(Hop::Config, "policy-wide", path, grant.message()).fix(grant.fix())
    });
    policies.chain(files.servers.values().flat_map(server)).collect()
}

fn server(file: &ServerFile) -> impl Iterator<Item = Finding> {
    let (name, spec) = (&file.server.name, &file.server.spec);
    let warning = |code, message: String, fix: &str| {
        Finding::warning(Hop::Config, code, name, message).fix(fix)
    };
    let inherits = spec.inherit_env.iter().any(|variable| variable == "*").then(|| {
        let message = "`inheritEnv: ['*']` shows the server the gateway's whole environment";
        warning("environment-inherited", message.to_owned(), "name the variables that it needs")
    });
    let is_plain = spec.url.starts_with("http://") && !Target::at(&spec.url).is_local();
    let plain = (is_plain && sends_credentials(spec)).then(|| {
        let message =
            format!("credentials are sent to {} without encryption", redact::address(&spec.url));
        warning("credentials-unencrypted", message, "use an `https` address")
    });
    inherits.into_iter().chain(plain)
}

/// Whether requests to the server carry secrets, or tokens of callers.
fn sends_credentials(spec: &McpServerSpec) -> bool {
    let has_tokens = spec.auth.as_ref().is_some_and(|auth| {
        auth.forward_token || auth.token_exchange.as_ref().is_some_and(|exchange| exchange.enabled)
    });
    let is_secret = |(name, value): (&String, &String)| {
        secrets::is_reference(value) || redact::setting(name, value) != *value
    };
    has_tokens || spec.headers.iter().any(is_secret) || redact::address(&spec.url) != spec.url
}

/// Whether a definition holds secrets themselves, not references to them.
pub(super) fn has_inline_secrets(spec: &McpServerSpec) -> bool {
    let is_secret = |(name, value): (&String, &String)| {
        !secrets::is_reference(value) && redact::setting(name, value) != *value
    };
    spec.env.iter().chain(&spec.headers).any(is_secret)
        || redact::arguments(&spec.args) != spec.args
        || redact::address(&spec.url) != spec.url
}

#[cfg(test)]
mod tests {
    use std::fs;

    use muster_engine::store::{ConfigStore, Files};

    use super::check;

    #[test]
    fn servers_that_get_or_send_more_than_they_should_are_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("mcpservers");
        fs::create_dir(&folder).unwrap();
        let codes = |text: &str| -> Vec<&str> {
            fs::write(folder.join("s.yaml"), text).unwrap();
            let files = ConfigStore::new(root.path()).load(&Files::default());
            assert!(files.problems.is_empty(), "{:?}", files.problems);
            check(&files).into_iter().map(|finding| finding.code).collect()
        };
        for (text, expected) in [
            ("command: s\ninheritEnv: ['*']\n", Some("environment-inherited")),
            ("command: s\ninheritEnv: [TZ]\n", None),
            (
                "url: http://h.example/mcp\nheaders: {X-Api-Key: k}\n",
                Some("credentials-unencrypted"),
            ),
            (
                "url: http://h.example/mcp\nheaders: {X: 'secret://k'}\n",
                Some("credentials-unencrypted"),
            ),
            ("url: http://u:p@h.example/mcp\n", Some("credentials-unencrypted")),
            (
                "url: http://h.example/mcp\nauth: {forwardToken: true}\n",
                Some("credentials-unencrypted"),
            ),
            ("url: http://h.example/mcp\nheaders: {Accept-Language: en}\n", None),
            ("url: http://localhost:1/mcp\nheaders: {X-Api-Key: k}\n", None),
            ("url: https://h.example/mcp\nheaders: {X-Api-Key: k}\n", None),
        ] {
            let found = codes(text);
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{text}");
        }
    }
}
