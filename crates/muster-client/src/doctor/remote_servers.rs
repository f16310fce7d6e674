//! Explains why a remote server cannot be used.

use std::{sync::Arc, time::Duration};

use muster_config::mcpserver::{McpServerSpec, ServerType};
use muster_core::{
    connect::{CertificateProblem, ConnectError, ConnectRequest, Connector},
    text,
};
use muster_engine::store::ServerFile;
use muster_net::Url;
use tokio::time::timeout;

use super::{
    Finding, Hop, definitions,
    probe::{ProbeResult, probe},
    servers::{Failure, OutputCollector},
};
use crate::env_vars;

/// The timeout of trying another path.
const OTHER_PATH: Duration = Duration::from_secs(2);
/// The usual paths of MCP endpoints.
const USUAL_PATHS: [&str; 3] = ["/mcp", "/sse", "/"];

/// Explains the failure of a remote server by probing its URL.
pub(super) async fn explain(
    connect: &dyn Connector,
    file: &ServerFile,
    failure: &Failure,
) -> Finding {
    let name = &file.server.name;
    if let Failure::Error { error: ConnectError::Unauthorized { challenge }, .. } = failure {
        return unauthorized(name, challenge.is_some());
    }
    let insecure = match failure {
        Failure::Error { error: ConnectError::Insecure { reason, certificate }, .. } => {
            Some((reason, *certificate))
        }
        Failure::Error { .. } | Failure::Timeout(_) => None,
    };
    // If the certificate was refused, report that. The response to a plain-text probe must not suggest another cause.
    if let Some((reason, Some(problem))) = insecure {
        return certificate(name, reason, problem);
    }
    let url = match Url::parse(&file.server.spec.url) {
        Ok(url) => url,
        Err(err) => {
            let message = format!("the url cannot be used: {err}");
            return Finding::bad(Hop::Config, "url-invalid", name, message)
                .fix("write it as `https://HOST:PORT/PATH`");
        }
    };
    let answer = probe(&url).await;
    let (host, port) = (url.host(), url.port());
    match (&answer, url.is_secure()) {
        (ProbeResult::UnknownHost(reason), _) => {
            let message = format!("the host `{host}` cannot be resolved: {reason}");
            Finding::bad(Hop::Handshake, "host-unknown", name, message)
                .fix(with_proxy("check the spelling of the host, and your network or VPN"))
        }
        (ProbeResult::Refused, _) => {
            let message = format!("nothing listens on {host}:{port}");
            Finding::bad(Hop::Handshake, "connection-refused", name, message)
                .fix("start the server, or correct the port in its `url`")
        }
        (ProbeResult::NoConnection(reason), _) => {
            let message = format!("{host}:{port} cannot be reached: {reason}");
            Finding::bad(Hop::Handshake, "unreachable", name, message)
                .fix(with_proxy("check your network or VPN, and the port in its `url`"))
        }
        // Offer no repair: anything on the way can respond in plain text, and `http://` would expose the headers to it.
        (ProbeResult::Http { .. }, true) => {
            let message = format!("{host}:{port} speaks plain HTTP, not HTTPS");
            Finding::bad(Hop::Handshake, "speaks-http", name, message).fix(
                "correct the port in its `url`, or write `http://` if its requests may travel unencrypted",
            )
        }
        (ProbeResult::Tls, false) => {
            let message = format!("{host}:{port} speaks HTTPS, not plain HTTP");
            let finding = Finding::bad(Hop::Handshake, "speaks-https", name, message);
            let rest = file.server.spec.url.split_once("://").map_or("", |(_, rest)| rest);
            with_url(finding, file, &format!("https://{rest}"), None)
        }
        (ProbeResult::Tls | ProbeResult::Other | ProbeResult::Http { .. }, _) => {
            match (failure, insecure) {
                (_, Some((reason, _))) => certificate(name, reason, CertificateProblem::Untrusted),
                (Failure::Timeout(limit), None) => {
                    let message = format!("no answer within {} s", limit.as_secs());
                    Finding::bad(Hop::Handshake, "no-answer", name, message)
                        .fix("look at the log of the server, or raise --timeout")
                }
                (Failure::Error { error, doing }, None) => {
                    let message = format!("{doing}: {}", text::printable(&error.to_string()));
                    let status = match answer {
                        ProbeResult::Http { status, .. } => Some(status),
                        _ => None,
                    };
                    not_mcp(connect, file, url.path(), message, status).await
                }
            }
        }
    }
}

/// The finding for a server that wants credentials. Without a challenge there may be no login, and `muster auth login` would
/// only fail.
fn unauthorized(name: &str, has_challenge: bool) -> Finding {
    if has_challenge {
        return Finding::bad(Hop::Login, "login-required", name, "it requires a login")
            .fix(format!("log in with `muster auth login --server {name}`, or set `headers`"));
    }
    let message = "it requires credentials (status 401), and does not say where to log in";
    Finding::bad(Hop::Login, "credentials-required", name, message).fix(
        "set them in its definition: `headers: {Authorization: Bearer …}`, or as its documentation says",
    )
}

/// Adds the fix of changing the URL of a definition, and its type if `kind` is given.
fn with_url(
    finding: Finding,
    file: &ServerFile,
    wanted: &str,
    kind: Option<ServerType>,
) -> Finding {
    let spec = &file.server.spec;
    let shown = muster_engine::redact::address(wanted);
    let repaired = McpServerSpec { url: wanted.to_owned(), ..spec.clone() };
    let repair = match kind {
        Some(_) => None,
        None => definitions::repair(file, &repaired, |line, indent| {
            let value = line.trim_start().strip_prefix("url:")?;
            Some(format!("{indent}url:{}", value.replacen(spec.url.as_str(), wanted, 1)))
        }),
    };
    let fix = match kind {
        Some(kind) => format!("write `url: {shown}` and `type: {}`", kind.as_str()),
        None => format!("write `url: {shown}`"),
    };
    finding.fix(fix).repair(repair)
}

fn certificate(name: &str, reason: &str, problem: CertificateProblem) -> Finding {
    let (code, fix) = match problem {
        CertificateProblem::Expired => (
            "certificate-expired",
            "its operator must renew the certificate; check the clock of this machine",
        ),
        CertificateProblem::WrongName => {
            ("certificate-name", "use the host name that the certificate is for in `url`")
        }
        CertificateProblem::Untrusted => (
            "certificate-untrusted",
            "add the CA that signed it, or a self-signed certificate itself, to those this machine trusts, or start the gateway \
             with `--extra-ca-file FILE`, and check with `muster doctor --extra-ca-file FILE`",
        ),
    };
    let reason = text::printable(reason);
    // What the TLS library says about a certificate that signs itself.
    let message = match code {
        "certificate-untrusted" => {
            format!("this machine does not trust its certificate, or who signed it: {reason}")
        }
        _ => reason,
    };
    Finding::bad(Hop::Certificates, code, name, message).fix(fix)
}

/// The finding for a server that responds, but not with MCP. Tries the usual paths to suggest the right one.
async fn not_mcp(
    connect: &dyn Connector,
    file: &ServerFile,
    path: &str,
    message: String,
    status: Option<u16>,
) -> Finding {
    let name = &file.server.name;
    let finding = Finding::bad(Hop::Handshake, "not-mcp", name, message);
    let url = &file.server.spec.url;
    let end = url.split_once("://").map_or(0, |(scheme, rest)| {
        scheme.len() + 3 + rest.find(['/', '?', '#']).unwrap_or(rest.len())
    });
    let origin = url.get(..end).unwrap_or_default();
    for usual in USUAL_PATHS.into_iter().filter(|usual| *usual != path) {
        let wanted = format!("{origin}{usual}");
        let kind = match usual {
            "/sse" => ServerType::Sse,
            _ => ServerType::StreamableHttp,
        };
        let spec = McpServerSpec { url: wanted.clone(), kind, ..file.server.spec.clone() };
        if answers(connect, name, &spec).await {
            let kind = Some(kind).filter(|kind| *kind != file.server.spec.kind);
            let found = Finding {
                code: "wrong-path",
                message: format!("{}; an MCP server answers at {usual}", finding.message),
                ..finding
            };
            return with_url(found, file, &wanted, kind);
        }
    }
    finding.fix(match status {
        Some(300..=399) => {
            "write the address that it redirects to; if that is a page to log in, `url` is not that of an API"
        }
        Some(403) => "check the credentials in its `headers`, and whether it lets this machine in",
        Some(500..=599) => "look at the log of the server: it failed to answer",
        _ => "check its `url` and `type`: an MCP server must answer there",
    })
}

/// Whether an MCP server responds at an endpoint, either with a handshake or with a login challenge.
async fn answers(connect: &dyn Connector, name: &str, spec: &McpServerSpec) -> bool {
    let (endpoint, limit) = (spec.endpoint(), OTHER_PATH);
    let events = Arc::new(OutputCollector::default());
    let request =
        ConnectRequest { name, endpoint: &endpoint, access: None, limit, era: None, events };
    match timeout(limit, connect.connect(request)).await {
        Ok(Ok(connection)) => {
            connection.close().await;
            true
        }
        Ok(Err(ConnectError::Unauthorized { challenge })) => challenge.is_some(),
        Ok(Err(_)) | Err(_) => false,
    }
}

/// Adds to a fix that muster does not use the proxy in the environment, if there is one.
fn with_proxy(fix: &str) -> String {
    const NAMES: [&str; 3] = ["https_proxy", "http_proxy", "all_proxy"];
    let set = env_vars::all()
        .find(|(name, value)| NAMES.contains(&name.to_lowercase().as_str()) && !value.is_empty());
    match set {
        Some((name, _)) => format!("{fix}; {name} is set, but muster connects without a proxy"),
        None => fix.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write as _, net::TcpListener, thread};

    use muster_core::{
        backend::BoxFuture,
        connect::{CertificateProblem, ConnectError, ConnectRequest, ConnectResult, Connector},
    };
    use muster_engine::store::{ConfigStore, Files};

    use super::{Failure, certificate, explain};

    #[test]
    fn certificates() {
        for (problem, code) in [
            (CertificateProblem::Expired, "certificate-expired"),
            (CertificateProblem::WrongName, "certificate-name"),
            (CertificateProblem::Untrusted, "certificate-untrusted"),
        ] {
            assert_eq!(certificate("s", "invalid peer certificate", problem).code, code);
        }
    }

    #[derive(Debug)]
    struct Nobody;

    impl Connector for Nobody {
        fn connect<'a>(&'a self, _: ConnectRequest<'a>) -> BoxFuture<'a, ConnectResult> {
            Box::pin(async { Err(ConnectError::Permanent("nobody".to_owned())) })
        }
    }

    /// Something on the way responds in plain text.
    #[tokio::test]
    async fn nothing_leads_from_https_to_http() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            for stream in listener.incoming() {
                drop(stream.unwrap().write_all(b"HTTP/1.1 404 Not Found\r\n\r\n"));
            }
        });
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("mcpservers")).unwrap();
        let text = format!("name: s\nurl: https://127.0.0.1:{port}/mcp\n");
        fs::write(root.path().join("mcpservers/s.yaml"), text).unwrap();
        let files = ConfigStore::new(root.path()).load(&Files::default());
        let file = files.servers.get("s").unwrap();
        for (reason, certificate, code) in [
            (
                "no TLS with h: UnknownIssuer",
                Some(CertificateProblem::Untrusted),
                "certificate-untrusted",
            ),
            ("no TLS with certificates.example: received corrupt message", None, "speaks-http"),
        ] {
            let error = ConnectError::Insecure { reason: reason.to_owned(), certificate };
            let failure = Failure::Error { error, doing: "connecting" };
            let finding = explain(&Nobody, file, &failure).await;
            assert_eq!((finding.code, finding.repair), (code, None), "{reason}");
        }
    }
}
