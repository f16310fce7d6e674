//! The cost of authenticating a request, in instructions.
//!
//! `admit KIND TIMES` authenticates one token many times, as the gateway does for every request: `own` is a
//! token that the gateway issued, `signed` one of a trusted issuer, `opaque` one that only the provider can
//! read, and `nothing` is the baseline without authentication. `first` uses a new signed token each time.
//! `bench/admit.py` runs it under valgrind: the difference between two counts is the cost of one request.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    dead_code,
    reason = "it shares the fixture of the tests and does not use all of it"
)]

#[path = "../tests/suite/idp.rs"]
mod idp;
#[path = "../tests/suite/world.rs"]
mod world;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, header};
use idp::ScriptedResponse;
use muster_core::credentials::Authenticator as _;
use serde_json::json;
use world::{World, peer};

fn main() {
    let mut args = std::env::args().skip(1);
    let (kind, times) = (args.next().unwrap(), args.next().unwrap().parse().unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(run(&kind, times));
}

async fn run(kind: &str, times: usize) {
    // Valgrind is slow.
    let timeout = Duration::from_secs(60);
    let mut world = World::with(|config| config.provider.timeout = timeout).await;
    world.server.discover_provider().await;
    let issuer = format!("{}/other", world.idp.issuer);
    let keys = json!({"issuer": issuer, "jwks_uri": format!("{}/jwks", world.idp.issuer)});
    world.idp.respond("/other/.well-known/openid-configuration", ScriptedResponse::Json(200, keys));
    let tokens = match kind {
        "own" => vec![world.login().await.unwrap()["access_token"].as_str().unwrap().to_owned()],
        "signed" => vec![signed(&world, 0)],
        "first" => (0..=times).map(|number| signed(&world, number)).collect(),
        _ => vec!["opaque".to_owned()],
    };
    let requests: Vec<HeaderMap> = tokens.iter().map(|token| headers_with(token)).collect();
    // The first validation is in both counts, so it cancels out.
    assert!(world.server.authenticate(&requests[0], &peer()).await.is_ok());
    let peer = peer();
    for number in 1..=times {
        let headers = &requests[number % requests.len()];
        if kind == "nothing" {
            assert!(std::hint::black_box(headers).contains_key(header::AUTHORIZATION));
        } else {
            assert!(world.server.authenticate(headers, &peer).await.is_ok());
        }
    }
}

fn signed(world: &World, number: usize) -> String {
    let mut claims = world.idp.valid_claims();
    claims["iss"] = json!(format!("{}/other", world.idp.issuer));
    claims["aud"] = json!("gateway");
    claims["jti"] = json!(number);
    world.idp.signer.sign(&claims)
}

fn headers_with(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let value = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    headers.insert(header::AUTHORIZATION, value);
    headers
}
