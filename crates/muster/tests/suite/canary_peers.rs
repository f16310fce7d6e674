//! The peers of a gateway in logins, with a secret in every response: an identity provider, a server that
//! requires a login, and its issuer.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use serde_json::{Value, json};

/// All of them at one address.
pub(crate) struct Peers {
    pub(crate) base: String,
    /// Whether issuers refuse everything, repeating what they were sent.
    pub(crate) unfriendly: Arc<AtomicBool>,
}

impl Peers {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let unfriendly = Arc::new(AtomicBool::new(false));
        let (place, mood) = (base.clone(), Arc::clone(&unfriendly));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (place, mood) = (place.clone(), Arc::clone(&mood));
                std::thread::spawn(move || serve(stream, &place, &mood));
            }
        });
        Self { base, unfriendly }
    }
}

fn serve(mut stream: TcpStream, base: &str, unfriendly: &AtomicBool) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        if line == "\r\n" {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    let body = String::from_utf8(body).unwrap();
    let path = head.split(' ').nth(1).unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default().to_owned();
    let asks = path.ends_with("/token") || path.ends_with("/revoke");
    let (status, more, answer) = if asks && unfriendly.load(Ordering::SeqCst) {
        let said = format!("{head} {body}").replace(['\r', '\n'], " ");
        (400, String::new(), json!({"error": "invalid_request", "error_description": said}))
    } else if path == "/mcp" {
        speak(&head, &body, base)
    } else {
        (200, String::new(), document(&path, base))
    };
    let answer = if answer.is_null() { String::new() } else { answer.to_string() };
    let reply = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{more}content-length: {}\r\nconnection: close\r\n\r\n{answer}",
        answer.len()
    );
    drop(stream.write_all(reply.as_bytes()));
}

/// What the provider and the issuer say.
fn document(path: &str, base: &str) -> Value {
    let at = |path: &str| format!("{base}{path}");
    let tokens = |whose: &str| {
        json!({"access_token": format!("canary-{whose}-access"), "token_type": "Bearer",
               "expires_in": 3600, "refresh_token": format!("canary-{whose}-refresh")})
    };
    match path {
        "/.well-known/openid-configuration" => json!({"issuer": base,
            "authorization_endpoint": at("/auth"), "token_endpoint": at("/token"),
            "userinfo_endpoint": at("/userinfo"), "revocation_endpoint": at("/revoke")}),
        "/userinfo" => json!({"sub": "alice", "email": "alice@example.com"}),
        "/token" => tokens("provider"),
        "/.well-known/oauth-protected-resource/mcp" => json!({"resource": at("/mcp"),
            "authorization_servers": [at("/backend")]}),
        "/.well-known/oauth-authorization-server/backend" => json!({"issuer": at("/backend"),
            "authorization_endpoint": at("/backend/auth"), "token_endpoint": at("/backend/token"),
            "registration_endpoint": at("/backend/register"),
            "revocation_endpoint": at("/backend/revoke"),
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
            "code_challenge_methods_supported": ["S256"]}),
        "/backend/register" => {
            json!({"client_id": "gateway", "client_secret": "canary-registered-secret"})
        }
        "/backend/token" => tokens("backend"),
        _ => json!({}),
    }
}

/// The responses of the server, to clients with its token and to others.
fn speak(head: &str, body: &str, base: &str) -> (u16, String, Value) {
    let known = head.to_lowercase().contains("authorization: bearer canary-backend-access");
    if !known {
        let metadata = format!("{base}/.well-known/oauth-protected-resource/mcp");
        let challenge = format!("www-authenticate: Bearer resource_metadata=\"{metadata}\"\r\n");
        return (401, challenge, Value::Null);
    }
    let asked: Value = serde_json::from_str(body).unwrap_or_default();
    let result = match asked["method"].as_str().unwrap_or_default() {
        "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                               "serverInfo": {"name": "vault", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "open", "inputSchema": {"type": "object"}}]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "opened"}]}),
        _ if asked.get("id").is_none() => return (202, String::new(), Value::Null),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "error": error});
            return (200, String::new(), answer);
        }
    };
    (200, String::new(), json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}))
}
