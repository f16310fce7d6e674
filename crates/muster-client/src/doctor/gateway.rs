//! Checks of the gateway: whether it runs, what responds at its address, and which configuration it serves.

use std::collections::BTreeSet;

use muster_api::mcp_server::McpServerList;
use muster_core::{json::RawObject, text};
use muster_engine::store::Files;
use muster_net::Url;

use super::{
    Finding, Hop,
    probe::{ProbeResult, probe},
};
use crate::remote::{Credentials, Remote, error::RemoteError, target::Target};

/// The server name that a gateway reports in the MCP handshake.
const GATEWAY: &str = "muster-aggregator";
/// The maximum number of servers that a message names.
const MOST_NAMES: usize = 5;

/// Checks whether the gateway runs or could be started.
pub(super) async fn check(target: &Target, files: &Files) -> Vec<Finding> {
    let target = target.as_operator();
    let auth = crate::login::stored_auth(&target).await;
    match Remote::connect(&target, &auth).await {
        Ok(remote) => {
            let findings = running(&remote, &target, &auth, files).await;
            remote.close().await;
            findings
        }
        Err(error) => vec![failed(&target, &error).await],
    }
}

async fn running(
    remote: &Remote,
    target: &Target,
    auth: &Credentials,
    files: &Files,
) -> Vec<Finding> {
    let (about, url) = (remote.about(), &target.url);
    if about.name != GATEWAY {
        let name = text::printable(&about.name);
        let message = format!("another MCP server answers there: {name}");
        return vec![port_taken(url, message)];
    }
    let message = format!("{} {} responds", about.name, about.version);
    let mut findings = vec![Finding::good(Hop::Gateway, url, message)];
    if !target.is_local() {
        return findings;
    }
    if target.operator.is_none() && matches!(auth, Credentials::None) && is_open(remote).await {
        let message = "it lets every process on this machine change it: it runs with `MUSTER_ACCESS=open` or `access.mode: open`";
        findings.push(
            Finding::warning(Hop::Gateway, "gateway-open", url, message).fix(
                "restart it without them; commands of your own user are operators without them",
            ),
        );
    } else if target.operator.is_none() {
        let message = "you are not its operator: commands that change it are refused";
        findings.push(Finding::warning(Hop::Gateway, "not-operator", url, message).fix(
            "run commands as the user that started it, with the same HOME and XDG_STATE_HOME",
        ));
    }
    let mut all = RawObject::new();
    all.set_value("showAll", &true);
    let listed: Result<McpServerList, _> = remote.reply("core_mcpserver_list", &all.to_raw()).await;
    if let Ok(listed) = listed {
        findings.extend(other_files(url, &listed, files));
    }
    findings
}

/// Whether a caller without credentials is an operator: only operators can see this tool.
async fn is_open(remote: &Remote) -> bool {
    let mut tool = RawObject::new();
    tool.set_value("name", "core_mcpserver_create");
    let described = remote.call("describe_tool", &tool.to_raw()).await;
    described.is_ok_and(|described| !described.failed)
}

/// Reports a gateway that serves a different configuration directory than the one that was checked.
fn other_files(url: &str, listed: &McpServerList, files: &Files) -> Option<Finding> {
    let theirs: BTreeSet<&str> =
        listed.mcp_servers.iter().map(|server| server.name.as_str()).collect();
    let ours: BTreeSet<&str> = files.servers.keys().map(String::as_str).collect();
    let only = |these: &BTreeSet<&str>, those: &BTreeSet<&str>| {
        let names: Vec<&str> = these.difference(those).copied().collect();
        let more = names.len().saturating_sub(MOST_NAMES);
        let shown = names.into_iter().take(MOST_NAMES).collect::<Vec<_>>().join(", ");
        if more > 0 { format!("{shown} and {more} others") } else { shown }
    };
    let (missing, more) = (only(&ours, &theirs), only(&theirs, &ours));
    if missing.is_empty() && more.is_empty() {
        return None;
    }
    let difference = match (missing.as_str(), more.as_str()) {
        (missing, "") => format!("it does not have {missing}"),
        ("", more) => format!("it has {more}"),
        (missing, more) => format!("it has {more}, and not {missing}"),
    };
    let message = format!("it serves another configuration than this one: {difference}");
    let finding = Finding::warning(Hop::Gateway, "other-configuration", url, message);
    Some(finding.fix("name its directory with --config-path, or restart it with this one"))
}

async fn failed(target: &Target, error: &RemoteError) -> Finding {
    let (url, message) = (&target.url, text::printable(&error.to_string()));
    match error {
        RemoteError::AuthRequired { .. } | RemoteError::AuthExpired { .. } => {
            return Finding::bad(Hop::Login, "login-required", url, message)
                .fix(format!("log in with `muster auth login --endpoint {url}`"));
        }
        RemoteError::Insecure(_) => {
            return Finding::bad(Hop::Certificates, "certificate-untrusted", url, message)
                .fix("add the CA that signed it to the certificates this machine trusts");
        }
        _ => (),
    }
    let Ok(address) = Url::parse(url) else {
        return Finding::bad(Hop::Gateway, "url-invalid", url, "the endpoint is not a URL")
            .fix("write it as `http://HOST:PORT/mcp`");
    };
    match probe(&address).await {
        ProbeResult::Refused if target.is_local() => {
            Finding::warning(Hop::Gateway, "not-running", url, "no gateway is running")
                .fix("start one with `muster serve`")
        }
        ProbeResult::UnknownHost(reason) => {
            let message = format!("the host `{}` cannot be resolved: {reason}", address.host());
            Finding::bad(Hop::Gateway, "host-unknown", url, message)
                .fix("check the endpoint with `muster context list`")
        }
        ProbeResult::NoConnection(reason) => {
            let message =
                format!("{}:{} cannot be reached: {reason}", address.host(), address.port());
            unreachable(url, message)
        }
        answer if target.is_local() => port_taken(url, another_program(address.port(), answer)),
        _ => unreachable(url, message),
    }
}

fn another_program(port: u16, answer: ProbeResult) -> String {
    let who = match answer {
        ProbeResult::Http { status, server } => {
            let server = server.map(|name| format!(" of `{}`", text::printable(&name)));
            format!("HTTP status {status}{}", server.unwrap_or_default())
        }
        ProbeResult::Tls => "TLS".to_owned(),
        _ => "no HTTP".to_owned(),
    };
    format!("another program answers on port {port}, not a gateway: {who}")
}

fn unreachable(url: &str, message: impl Into<String>) -> Finding {
    Finding::bad(Hop::Gateway, "unreachable", url, message)
        .fix("check the endpoint with `muster context list`")
}

fn port_taken(url: &str, message: String) -> Finding {
    Finding::bad(Hop::Gateway, "port-taken", url, message)
        .fix("stop that program, or choose another port: `aggregator.port` in config.yaml, or `muster serve --port N`")
}
