//! Checks of what policies, CLIs and server definitions expose.

use muster_config::mcpserver::McpServerSpec;
use muster_core::cli::{CliConfig, CredentialFiles, Executor};
use muster_engine::{
    cli_offer::BundledCli,
    redact,
    store::{Files, ServerFile},
    wide_grants,
};

use super::{Finding, Hop};
use crate::{remote::target::Target, secrets};

/// Checks policies, CLIs and servers.
pub(super) fn check(files: &Files, bundled: &[BundledCli]) -> Vec<Finding> {
    let policies = wide_grants::examined(files).into_iter().map(|grant| {
        let path = grant.path.display().to_string();
        Finding::warning(Hop::Config, "policy-wide", path, grant.message()).fix(grant.fix())
    });
    let found = policies.chain(containers(files)).chain(opened(files, bundled));
    found.chain(files.servers.values().flat_map(server)).collect()
}

/// Reports policies whose containers can change the host.
fn containers(files: &Files) -> impl Iterator<Item = Finding> {
    files.policies.iter().filter_map(|(path, file)| {
        let Executor::Docker(docker) = &file.policy.as_ref()?.executor else { return None };
        let volume = docker.volumes.iter().find(|volume| opens_the_machine(volume))?;
        let message =
            format!("the volume `{volume}` gives the tools more than a container keeps from them");
        let finding =
            Finding::warning(Hop::Config, "container-open", path.display().to_string(), message);
        Some(finding.fix("mount the folder that the tools need, `:ro` if they only read"))
    })
}

/// Whether a volume gives a container control of the host: a system or home directory, or the container engine's
/// socket.
fn opens_the_machine(volume: &str) -> bool {
    let source = volume.split(':').next().unwrap_or(volume);
    let is_socket = source.ends_with("docker.sock") || source.ends_with("podman.sock");
    let source = source.trim_end_matches('/');
    is_socket
        || matches!(
            source,
            "" | "/etc" | "/home" | "/root" | "/var/run" | "/run" | "$HOME" | "${HOME}"
        )
}

/// Reports CLIs that replace a bundled one and accept credential files, which the bundled one refuses.
fn opened(files: &Files, bundled: &[BundledCli]) -> impl Iterator<Item = Finding> {
    let own = files.clis.iter().flatten();
    own.filter_map(|(path, config)| {
        let replaces = bundled.iter().any(|cli| {
            path.file_stem().is_some_and(|name| name == &*cli.name)
                && cli.config.credential_files == CredentialFiles::Refuse
        });
        let opens = replaces && config.credential_files == CredentialFiles::Allow;
        opens.then(|| {
            let message = "it replaces a bundled CLI, and its tools open files that hold credentials, such as those in `~/.ssh`";
            let path = path.display().to_string();
            Finding::warning(Hop::Config, "credential-files", path, message)
                .fix("set `credential_files: refuse`, or give the file another name")
        })
    })
}

/// Whether the variables of a CLI hold secrets.
pub(super) fn has_secret_variables(config: &CliConfig) -> bool {
    config.env.iter().any(|(name, value)| redact::setting(name, value) != *value)
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

/// Whether requests to the server carry secrets or the tokens of callers.
fn sends_credentials(spec: &McpServerSpec) -> bool {
    let has_tokens = spec.auth.as_ref().is_some_and(|auth| {
        auth.forward_token || auth.token_exchange.as_ref().is_some_and(|exchange| exchange.enabled)
    });
    let is_secret = |(name, value): (&String, &String)| {
        secrets::is_reference(value) || redact::setting(name, value) != *value
    };
    has_tokens || spec.headers.iter().any(is_secret) || redact::address(&spec.url) != spec.url
}

/// Whether a definition contains secrets instead of references to them.
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
    use std::{fs, sync::Arc};

    use muster_config::cli;
    use muster_engine::store::{ConfigStore, Files};

    use super::{BundledCli, check};

    #[test]
    fn servers_that_get_or_send_more_than_they_should_are_found() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("mcpservers");
        fs::create_dir(&folder).unwrap();
        let codes = |text: &str| -> Vec<&str> {
            fs::write(folder.join("s.yaml"), text).unwrap();
            let files = ConfigStore::new(root.path()).load(&Files::default());
            assert!(files.problems.is_empty(), "{:?}", files.problems);
            check(&files, &[]).into_iter().map(|finding| finding.code).collect()
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

    #[test]
    fn policies_and_clis_that_open_the_machine_are_found() {
        let root = tempfile::tempdir().unwrap();
        let config = |text: &str| Arc::new(cli::parse(text).unwrap().value);
        let refusing = "command: env\ncredential_files: refuse\ntools: []\n";
        let bundled = [BundledCli { name: "files".into(), config: config(refusing) }];
        let codes = |file: &str, text: &str| -> Vec<&str> {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            let files = ConfigStore::new(root.path()).load(&Files::default());
            assert!(files.problems.is_empty(), "{:?}", files.problems);
            fs::remove_file(path).unwrap();
            check(&files, &bundled).into_iter().map(|finding| finding.code).collect()
        };
        for (volume, opens) in [
            ("/:/host", true),
            ("/var/run/docker.sock:/var/run/docker.sock", true),
            ("$HOME:/home/ada:ro", true),
            ("/root/:/x", true),
            ("$HOME/project:/work", false),
            ("/srv/data:/data:ro", false),
            ("cache:/cache", false),
        ] {
            let policy = format!(
                "default: enabled\nexecutor: {{type: docker, image: x, volumes: ['{volume}']}}\n"
            );
            let expected: &[&str] = if opens { &["container-open"] } else { &[] };
            assert_eq!(codes("policies/p.yaml", &policy), expected, "{volume}");
        }
        let allowing = refusing.replace("refuse", "allow");
        assert_eq!(codes("clis/files.yaml", &allowing), ["credential-files"]);
        assert_eq!(codes("clis/files.yaml", refusing), [""; 0]);
        assert_eq!(codes("clis/mine.yaml", &allowing), [""; 0]);
    }
}
