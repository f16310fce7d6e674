//! Mock identity providers over HTTP: valid requests are granted, all others rejected.

use std::time::Duration;

use muster_scenario::{
    mock::fault::Fault,
    oauth::{
        jwt,
        records::{ProviderEndpoint, UserIdentity},
    },
};
use serde_json::{Value, json};

use crate::{
    http_client::{
        BACK, authorization_query, code, encoded, get, post, providers, redemption, send,
    },
    support::block_on,
};

/// Changed parameters and the expected result.
type Row = (&'static [(&'static str, &'static str)], &'static str);

const IDP: &str = "  mock_oauth_servers: [{name: idp, scopes: [openid, read, write], auto_approve: true, pkce_required: true, client_id: me, use_mock_clock: true, token_lifetime: 10m}]\n";

#[test]
fn authorization_requests_are_checked() {
    block_on(async {
        let all = providers(IDP).await;
        let issuer = all.get("idp").unwrap().state().issuer().to_owned();
        let rows: &[Row] = &[
            (&[], "302 -"),
            (&[("client_id", "")], "400 invalid_request"),
            (&[("redirect_uri", "")], "400 invalid_request"),
            (&[("redirect_uri", "/relative")], "400 invalid_request"),
            (&[("redirect_uri", "http://localhost/#fragment")], "400 invalid_request"),
            (&[("state", "")], "302 invalid_request"),
            (&[("response_type", "token")], "302 unsupported_response_type"),
            (&[("code_challenge", "")], "302 invalid_request"),
            (&[("code_challenge", "short")], "302 invalid_request"),
            (&[("code_challenge_method", "plain")], "302 invalid_request"),
            (&[("code_challenge_method", "")], "302 invalid_request"),
        ];
        for (changes, expected) in rows {
            let reply = get(&format!("{issuer}/authorize?{}", authorization_query(changes))).await;
            let error = reply.parameter("error").unwrap_or_else(|| "-".to_owned());
            let got = if reply.status == 302 { format!("302 {error}") } else { reply.error() };
            assert_eq!(got, *expected, "{changes:?}: {reply:?}");
            if reply.status == 302 {
                assert_eq!(reply.parameter("iss").as_ref(), Some(&issuer));
            }
        }
    });
}

#[test]
fn codes_are_bound_to_their_request() {
    block_on(async {
        let all = providers(IDP).await;
        let issuer = all.get("idp").unwrap().state().issuer().to_owned();
        let token = format!("{issuer}/token");
        let rows: &[Row] = &[
            (&[], "200"),
            (&[("code", "another")], "400 invalid_grant"),
            (&[("code", "")], "400 invalid_request"),
            (&[("redirect_uri", "http://localhost:9/other")], "400 invalid_grant"),
            (&[("redirect_uri", "")], "400 invalid_request"),
            (&[("client_id", "you")], "400 invalid_grant"),
            (&[("client_id", "")], "400 invalid_grant"),
            (&[("code_verifier", "wrong")], "400 invalid_grant"),
            (&[("code_verifier", "")], "400 invalid_grant"),
            (&[("grant_type", "password")], "400 unsupported_grant_type"),
            (&[("grant_type", "")], "400 invalid_request"),
        ];
        for (changes, expected) in rows {
            let code = code(&issuer, &[]).await;
            let reply = post(&token, &redemption(&code, changes)).await;
            assert_eq!(reply.error(), *expected, "{changes:?}: {reply:?}");
            // A failed attempt has used up the code.
            if *expected == "400 invalid_grant" && changes[0].0 != "code" {
                let again = post(&token, &redemption(&code, &[])).await;
                assert_eq!(again.error(), "400 invalid_grant", "{changes:?}");
            }
        }
        let late = code(&issuer, &[]).await;
        assert!(all.get("idp").unwrap().state().advance(Duration::from_secs(601)));
        let reply = post(&token, &redemption(&late, &[])).await;
        assert_eq!(reply.error(), "400 invalid_grant", "an old code");
    });
}

#[test]
fn tokens_expire_and_are_refreshed_once() {
    block_on(async {
        let all = providers(IDP).await;
        let core = all.get("idp").unwrap().state();
        let issuer = core.issuer().to_owned();
        let token = format!("{issuer}/token");
        let code = code(&issuer, &[("nonce", "n-1")]).await;
        let first = post(&token, &redemption(&code, &[])).await.json();
        assert_eq!(first["expires_in"], 600);
        assert_eq!(first["scope"], "openid read");
        let claims = jwt::claims(first["id_token"].as_str().unwrap()).unwrap();
        assert_eq!(claims["iss"], *issuer);
        assert_eq!(claims["aud"], "me");
        assert_eq!(claims["nonce"], "n-1");
        assert_eq!(claims["sub"], "test-user-123");
        let userinfo = async |token: &str| {
            let head = format!("authorization: Bearer {token}\r\n");
            send("GET", &format!("{issuer}/userinfo"), &head, "", None).await
        };
        let access = first["access_token"].as_str().unwrap();
        assert_eq!(userinfo(access).await.json()["email"], "test@example.com");
        assert_eq!(userinfo("other").await.error(), "401 invalid_token");
        core.advance(Duration::from_secs(601));
        assert_eq!(userinfo(access).await.error(), "401 invalid_token");
        let refresh = first["refresh_token"].as_str().unwrap();
        let renew = async |refresh: &str, client: &str, scope: &str| {
            let pairs = [
                ("grant_type", "refresh_token"),
                ("refresh_token", refresh),
                ("client_id", client),
                ("scope", scope),
            ];
            post(&token, &pairs).await
        };
        assert_eq!(renew(refresh, "you", "").await.error(), "400 invalid_grant");
        assert_eq!(renew(refresh, "me", "").await.status, 200);
        let again = renew(refresh, "me", "").await;
        assert_eq!(again.error(), "400 invalid_grant", "a used refresh token");
        let log = core.log();
        assert_eq!(log["requests"]["token_refresh"], 3);
        assert_eq!(log["refused"].as_array().unwrap().len(), 4, "{log}");
    });
}

#[test]
fn a_reused_refresh_token_revokes_its_family() {
    block_on(async {
        let all = providers(IDP).await;
        let core = all.get("idp").unwrap().state();
        let token = format!("{}/token", core.issuer());
        let minted = core.mint(&UserIdentity::default(), "read");
        let renew = async |refresh: &str| {
            let pairs =
                [("grant_type", "refresh_token"), ("refresh_token", refresh), ("client_id", "me")];
            post(&token, &pairs).await
        };
        let second = renew(&minted.refresh).await.json();
        assert_eq!(renew(&minted.refresh).await.error(), "400 invalid_grant");
        let next = renew(second["refresh_token"].as_str().unwrap()).await;
        assert_eq!(next.error(), "400 invalid_grant", "the whole family is gone");
    });
}

#[test]
fn clients_and_their_secrets() {
    block_on(async {
        let all = providers("  mock_oauth_servers:\n    - {name: dyn, clients: dynamic, auto_approve: true, client_id: own, client_secret: s3cret}\n    - {name: stat, clients: static, auto_approve: true, client_id: own}\n").await;
        let issuer = all.get("dyn").unwrap().state().issuer().to_owned();
        let stranger = get(&format!("{issuer}/authorize?{}", authorization_query(&[]))).await;
        assert_eq!(stranger.error(), "401 invalid_client");
        let body = json!({"redirect_uris": [BACK], "token_endpoint_auth_method": "none"});
        let register = format!("{issuer}/register");
        let client = send("POST", &register, "", &body.to_string(), None).await;
        assert_eq!(client.status, 201);
        let id = client.json()["client_id"].as_str().unwrap().to_owned();
        let elsewhere = authorization_query(&[
            ("client_id", &id),
            ("redirect_uri", "http://localhost:9/other"),
        ]);
        let elsewhere = get(&format!("{issuer}/authorize?{elsewhere}")).await;
        assert_eq!(elsewhere.error(), "400 invalid_request");
        let value = code(&issuer, &[("client_id", &id)]).await;
        let token = format!("{issuer}/token");
        let reply = post(&token, &redemption(&value, &[("client_id", &id)])).await;
        assert_eq!(reply.status, 200, "{reply:?}");
        for (secret, expected) in
            [("s3cret", "200"), ("wrong", "401 invalid_client"), ("", "401 invalid_client")]
        {
            let value = code(&issuer, &[("client_id", "own")]).await;
            let changes = [("client_id", "own"), ("client_secret", secret)];
            let reply = post(&token, &redemption(&value, &changes)).await;
            assert_eq!(reply.error(), expected, "{secret}");
        }
        let stat = all.get("stat").unwrap().state().issuer().to_owned();
        let metadata = get(&format!("{stat}/.well-known/oauth-authorization-server")).await.json();
        assert_eq!(metadata["registration_endpoint"], Value::Null);
        let refused = get(&format!("{stat}/authorize?{}", authorization_query(&[]))).await;
        assert_eq!(refused.error(), "401 invalid_client");
    });
}

#[test]
fn metadata_is_at_the_configured_paths() {
    block_on(async {
        let all = providers("  mock_oauth_servers:\n    - {name: a}\n    - {name: b, issuer: /t/1, discovery: oauth}\n    - {name: c, issuer: /t/1, discovery: openid}\n    - {name: d, issuer: /t/1, discovery: openid-appended}\n").await;
        let rows = [
            ("a", "/.well-known/oauth-authorization-server", 200),
            ("a", "/.well-known/openid-configuration", 200),
            ("b", "/.well-known/oauth-authorization-server/t/1", 200),
            ("b", "/.well-known/oauth-authorization-server", 404),
            ("b", "/t/1/.well-known/openid-configuration", 404),
            ("c", "/.well-known/openid-configuration/t/1", 200),
            ("c", "/.well-known/oauth-authorization-server/t/1", 404),
            ("d", "/t/1/.well-known/openid-configuration", 200),
            ("d", "/.well-known/openid-configuration/t/1", 404),
            ("a", "/.well-known/oauth-protected-resource", 404),
        ];
        for (name, path, status) in rows {
            let core = all.get(name).unwrap().state();
            let reply = get(&format!("{}{path}", core.origin())).await;
            assert_eq!(reply.status, status, "{name} {path}");
            if status == 200 {
                assert_eq!(reply.json()["issuer"], *core.issuer());
                assert_eq!(reply.json()["token_endpoint"], format!("{}/token", core.issuer()));
            }
        }
    });
}

const TWO: &str = "  mock_oauth_servers:\n    - {name: home, scopes: [openid, read], client_id: h, use_tls: true, use_mock_clock: true, sign_tokens: true}\n    - {name: far, scopes: [openid, read], client_id: f, trusted_issuers: [{connector_id: to-home, oauth_server_ref: home}]}\n";

#[test]
fn tls_requires_the_right_ca() {
    block_on(async {
        let all = providers(TWO).await;
        let issuer = all.get("home").unwrap().state().issuer().to_owned();
        assert!(issuer.starts_with("https://localhost:"));
        let url = format!("{issuer}/jwks");
        let keys = send("GET", &url, "", "", all.ca_pem()).await.json();
        assert_eq!(keys["keys"][0]["kty"], "EC");
        let distrust = send("GET", &url, "", "", None).await;
        assert_eq!(distrust.status, 0, "{distrust:?}");
        let other = providers(TWO).await;
        let distrust = send("GET", &url, "", "", other.ca_pem()).await;
        assert_eq!(distrust.status, 0, "{distrust:?}");
    });
}

#[test]
fn only_valid_foreign_tokens_are_exchanged() {
    block_on(async {
        let all = providers(TWO).await;
        let (home, far) = (all.get("home").unwrap().state(), all.get("far").unwrap().state());
        let identity = UserIdentity::named("alice");
        let theirs = home.mint(&identity, "openid");
        let own = far.mint(&identity, "openid");
        let forged = jwt::token(&jwt::claims(&theirs.id).unwrap(), None);
        let exchange = async |subject: &str, connector: &str, wanted: &str| {
            let pairs = [
                ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
                ("subject_token", subject),
                ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
                ("connector_id", connector),
                ("scope", "openid read"),
                ("requested_token_type", wanted),
            ];
            let kind = "content-type: application/x-www-form-urlencoded\r\n";
            let url = format!("{}/token", far.issuer());
            send("POST", &url, kind, &encoded(&pairs), all.ca_pem()).await
        };
        let access = "urn:ietf:params:oauth:token-type:access_token";
        let good = exchange(&theirs.id, "to-home", access).await.json();
        assert_eq!(good["issued_token_type"], access);
        let head = format!("authorization: Bearer {}\r\n", good["access_token"].as_str().unwrap());
        let url = format!("{}/userinfo", far.issuer());
        let who = send("GET", &url, &head, "", all.ca_pem()).await.json();
        assert_eq!(who["email"], "alice@example.com");
        let wanted = "urn:ietf:params:oauth:token-type:id_token";
        let id = exchange(&theirs.id, "to-home", wanted).await.json();
        let claims = jwt::claims(id["access_token"].as_str().unwrap()).unwrap();
        assert_eq!(claims["iss"], *far.issuer());
        assert_eq!(exchange(&theirs.id, "other", access).await.error(), "400 invalid_target");
        assert_eq!(exchange(&own.id, "to-home", access).await.error(), "400 invalid_grant");
        assert_eq!(exchange(&forged, "to-home", access).await.error(), "400 invalid_grant");
        assert_eq!(exchange("nonsense", "to-home", access).await.error(), "400 invalid_grant");
        assert_eq!(exchange(&theirs.access, "to-home", access).await.error(), "400 invalid_grant");
        assert!(home.advance(Duration::from_secs(3601)));
        assert_eq!(exchange(&theirs.id, "to-home", access).await.error(), "400 invalid_grant");
    });
}

#[test]
fn faults_are_injected_into_endpoints() {
    block_on(async {
        let all =
            providers("  mock_oauth_servers: [{name: idp, wrong_issuer: true, hide_pkce: true}]\n")
                .await;
        let core = all.get("idp").unwrap().state();
        let place = format!("{}/.well-known/openid-configuration", core.issuer());
        let document = get(&place).await.json();
        assert_eq!(document["issuer"], "https://somebody.else.example");
        assert_eq!(document["code_challenge_methods_supported"], Value::Null);
        let jwks = format!("{}/jwks", core.issuer());
        let set = |endpoint: &str, fault: Value| {
            let fault = (!fault.is_null()).then(|| Fault::read(&fault).unwrap());
            core.set_fault(ProviderEndpoint::named(endpoint).unwrap(), fault);
        };
        set("jwks", json!({"kind": "status", "status": 503, "times": 1}));
        assert_eq!(get(&jwks).await.status, 503);
        assert_eq!(get(&jwks).await.status, 200, "once only");
        set("jwks", json!("garbage"));
        assert!(get(&jwks).await.body.contains("%PDF"));
        set("jwks", json!("reset"));
        assert_eq!(get(&jwks).await.status, 0);
        set("jwks", json!(null));
        assert_eq!(get(&jwks).await.status, 200);
        set("metadata", json!({"kind": "status", "status": 500}));
        assert_eq!(get(&place).await.status, 500);
        assert_eq!(ProviderEndpoint::named("nowhere"), None);
    });
}
