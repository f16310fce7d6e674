//! The environment variables that muster and climax read. The reference page is generated from this table.

use std::env;

/// Every variable: its name and what it does.
pub const ALL: [(&str, &str); 30] = [
    ("CLIMAX_LOG_FILE", "Append log lines to this file, at the level of `--log-level`"),
    ("NO_COLOR", "Print without colour, even on a terminal, when set and not empty"),
    (
        "HOME",
        "The home directory: expands a leading `~` in a config's `command`, holds `.config/muster` and `.local/share`",
    ),
    (
        "XDG_DATA_HOME",
        "The directory for data files, such as the one of `climax skill --path`; default `~/.local/share`",
    ),
    (
        "XDG_STATE_HOME",
        "The directory for state files: the state folders of gateways, the files by which commands prove to a gateway that they are its operator, and the history of the REPL; default `~/.local/state`",
    ),
    (
        "MUSTER_STATE_PATH",
        "The state folder of the gateway; `--state-path` overrides it; default: one for each configuration directory below `XDG_STATE_HOME`",
    ),
    (
        "MUSTER_ACCESS",
        "The access mode of `muster serve` and `muster standalone`: `private`, `token` or `open`; overrides `access.mode` in config.yaml",
    ),
    (
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "The URL of a collector that `muster serve` sends traces to, over OTLP/HTTP with JSON; overrides `traces.endpoint` in config.yaml",
    ),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "The same, as the whole URL of traces"),
    ("OTEL_EXPORTER_OTLP_HEADERS", "Headers of these requests: `name=value,name=value`"),
    ("OTEL_SERVICE_NAME", "The name of the gateway in traces; default `muster`"),
    (
        "OTEL_RESOURCE_ATTRIBUTES",
        "Attributes of the gateway in traces: `service.instance.id=west-1,deployment.environment.name=test`",
    ),
    (
        "OTEL_TRACES_SAMPLER_ARG",
        "The part of traces that is recorded, from 0 to 1; overrides `traces.samplePercent` in config.yaml",
    ),
    ("MUSTER_ENDPOINT", "The endpoint of the gateway; `--endpoint` overrides it"),
    ("MUSTER_CONTEXT", "The context to use; `--context` overrides it"),
    (
        "MUSTER_AUTH_MODE",
        "How to log in when a gateway requires it: `auto` opens the browser, `prompt` asks first, `none` fails",
    ),
    (
        "MUSTER_OAUTH_CALLBACK_PORT",
        "The local port that the browser is redirected to after a login; default 3000",
    ),
    (
        "MUSTER_OAUTH_CLIENT_ID",
        "The client id for logins at gateways; by default muster registers itself",
    ),
    (
        "KUBECONFIG",
        "The kubeconfig of `kubernetes: true`; default: the service account of the pod, or `~/.kube/config`",
    ),
    ("KUBERNETES_SERVICE_HOST", "The host of the API server; set in every pod"),
    ("KUBERNETES_SERVICE_PORT", "The port of the API server; set in every pod"),
    ("HOSTNAME", "The name of the pod, in the Lease and in Events of `kubernetes: true`"),
    ("TERM", "The REPL prompt is plain ASCII if this is empty or `dumb`"),
    ("TMPDIR", "The directory of temporary files; default `/tmp`"),
    ("MUSTER_RELEASES_URL", "The URL of the release document that `muster self-update` reads"),
    ("MUSTER_COMPLETE", "Set by completion scripts to the name of the shell"),
    ("MUSTER_COMPLETE_BRIEF", "The same in scripts without descriptions"),
    ("VISUAL", "The editor of `muster edit`"),
    ("EDITOR", "The editor of `muster edit` if `VISUAL` is not set; default `vi`"),
    ("PATH", "Where programs are looked up, unless a config's `env` sets its own"),
];

/// The value of a variable, if it is set, not empty and valid UTF-8.
pub fn get(name: &str) -> Option<String> {
    debug_assert!(ALL.iter().any(|(known, _)| *known == name), "{name} is not documented");
    #[expect(clippy::disallowed_methods, reason = "the one place where the environment is read")]
    env::var(name).ok().filter(|value| !value.is_empty())
}

/// All variables that are valid UTF-8, for `$NAME` in configs and for child processes.
pub fn all() -> impl Iterator<Item = (String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}
