//! Protected mock servers: token checks, challenges and metadata.

use std::{sync::Arc, time::Duration};

use muster_scenario::{
    mock::remote::RemoteMock,
    oauth::{Providers, records::UserIdentity, resource_guard::ResourceGuard},
    scenario::ServerKind,
};
use serde_json::json;

use crate::{
    http_client::{Reply, authorization_query, code, get, post, prepared, redemption, send},
    support::block_on,
};

/// Starts the providers and the protected server of a scenario.
async fn protected(setup: &str) -> (Providers, RemoteMock) {
    let scenario = prepared(setup);
    let all = Providers::start(&scenario.setup.oauth_servers).await.unwrap();
    let server = &scenario.setup.mcp_servers[0];
    let ServerKind::Remote { mock, transport, oauth } = &server.kind else { panic!("{server:?}") };
    let guard = *oauth.clone().unwrap();
    let core = Arc::clone(all.get(guard.provider.as_deref().unwrap()).unwrap().state());
    let guard = Some(ResourceGuard::new(core, guard));
    let remote = RemoteMock::behind(guard, &server.name, mock, *transport).await.unwrap();
    (all, remote)
}

fn guarded(idp: &str, guard: &str) -> String {
    format!(
        "  mock_oauth_servers: [{{name: idp, scopes: [openid, read], use_mock_clock: true{idp}}}]\n  mcp_servers:\n    - name: s\n      config:\n        type: streamable-http\n        oauth: {{required: true, mock_oauth_server_ref: idp, scope: read{guard}}}\n        tools: [{{name: t, responses: [{{condition: {{a: bad}}, error: broken}}, {{response: fine}}]}}]\n"
    )
}

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":"good"}}}"#;

async fn call(mock: &RemoteMock, token: &str, body: &str) -> Reply {
    let head = match token {
        "" => String::new(),
        token => format!("authorization: Bearer {token}\r\n"),
    };
    send("POST", &mock.url(), &head, body, None).await
}

#[test]
fn a_protected_server_checks_tokens() {
    block_on(async {
        let (all, mock) = protected(&guarded("", "")).await;
        let core = all.get("idp").unwrap().state();
        let me = UserIdentity::default();
        let closed = call(&mock, "", CALL).await;
        assert_eq!((closed.status, closed.body.as_str()), (401, ""));
        let expected = format!(
            "Bearer resource_metadata=\"{}/.well-known/oauth-protected-resource\"",
            core.issuer()
        );
        assert_eq!(closed.header("www-authenticate"), Some(expected.as_str()));
        let unknown = call(&mock, "whatever", CALL).await;
        assert_eq!(unknown.status, 401);
        assert!(unknown.header("www-authenticate").unwrap().contains("error=\"invalid_token\""));
        let weak = call(&mock, &core.mint(&me, "openid").access, CALL).await;
        assert_eq!(weak.status, 403);
        assert!(weak.header("www-authenticate").unwrap().contains("error=\"insufficient_scope\""));
        let minted = core.mint(&me, "openid read");
        assert!(call(&mock, &minted.access, CALL).await.body.contains("fine"));
        assert!(
            call(&mock, &minted.id, CALL).await.body.contains("fine"),
            "an ID token is accepted"
        );
        let bad = CALL.replace("good", "bad");
        let failed = call(&mock, &minted.access, &bad).await.json();
        assert_eq!(failed["result"]["isError"], true, "{failed}");
        core.inject("by-hand", &me, "read", Duration::from_secs(60));
        assert!(call(&mock, "by-hand", CALL).await.body.contains("fine"));
        core.advance(Duration::from_secs(61));
        assert_eq!(call(&mock, "by-hand", CALL).await.status, 401);
        assert!(call(&mock, &minted.access, CALL).await.body.contains("fine"));
        assert!(core.revoke_all() > 0);
        assert_eq!(call(&mock, &minted.access, CALL).await.status, 401);
    });
}

#[test]
fn metadata_of_a_protected_server() {
    block_on(async {
        let root = "/.well-known/oauth-protected-resource";
        for (guard, path, status) in [
            ("", root.to_owned(), 200),
            ("", format!("{root}/mcp"), 404),
            (", resource_metadata: own", root.to_owned(), 404),
            (", resource_metadata: own", format!("{root}/mcp"), 200),
            (", resource_metadata: absent", root.to_owned(), 200),
        ] {
            let (all, mock) = protected(&guarded("", guard)).await;
            let reply = get(&format!("http://localhost:{}{path}", mock.port())).await;
            assert_eq!(reply.status, status, "{guard} {path}");
            if status == 200 {
                let issuer = all.get("idp").unwrap().state().issuer();
                let expected = json!({
                    "resource": mock.url(), "authorization_servers": [issuer],
                    "bearer_methods_supported": ["header"], "scopes_supported": ["read"],
                });
                assert_eq!(reply.json(), expected);
            }
            let challenge = call(&mock, "", CALL).await;
            let challenge = challenge.header("www-authenticate").unwrap().to_owned();
            let own = format!("http://localhost:{}{root}/mcp", mock.port());
            assert_eq!(challenge.contains(&own), guard.contains("own"), "{challenge}");
            assert_eq!(challenge == "Bearer", guard.contains("absent"), "{challenge}");
        }
    });
}

#[test]
fn tokens_for_another_audience_are_rejected() {
    block_on(async {
        let (all, mock) =
            protected(&guarded(", bind_resources: true, auto_approve: true", "")).await;
        let issuer = all.get("idp").unwrap().state().issuer().to_owned();
        let unbound = get(&format!("{issuer}/authorize?{}", authorization_query(&[]))).await;
        assert_eq!(unbound.parameter("error").as_deref(), Some("invalid_target"));
        for (resource, status) in [(mock.url().as_str(), 200), ("http://localhost:1/mcp", 401)] {
            let code = code(&issuer, &[("resource", resource), ("scope", "read")]).await;
            let token = post(&format!("{issuer}/token"), &redemption(&code, &[])).await.json();
            let reply = call(&mock, token["access_token"].as_str().unwrap(), CALL).await;
            assert_eq!(reply.status, status, "{resource}");
        }
        let (all, mock) = protected(&guarded("", ", expected_audience: k8s")).await;
        let core = all.get("idp").unwrap().state();
        let wrong = core.mint(&UserIdentity::default(), "openid read");
        assert_eq!(call(&mock, &wrong.id, CALL).await.status, 401);
        assert_eq!(call(&mock, &wrong.access, CALL).await.status, 401);
        let right =
            core.mint(&UserIdentity::default(), "openid read audience:server:client_id:k8s");
        assert_eq!(call(&mock, &right.id, CALL).await.status, 200);
    });
}
