//! What it costs to let somebody in whose token was judged before: processor time for one request.
//!
//! `cargo run --release -p muster-auth --example admit` prints nanoseconds. Processor time of the process is
//! counted and not the time of day, so that a busy machine does not change it much.
#![expect(clippy::print_stdout, reason = "it is what this program is for")]

use std::{fs, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, header};
use muster_auth::{
    clock::Clock,
    dialer::{Dialer, Reach, Trust},
    server::{AuthServer, Kind, ProviderConfig, Proxies, ServerConfig, Trusted},
    store::{Memory, Vault},
};
use muster_core::credentials::Guard as _;

const TIMES: u64 = 500_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let clock = Clock::system();
        let vault = Vault::new(Arc::new(Memory::new(clock.clone())), None);
        let server =
            AuthServer::new(config(), vault, Dialer::new(Arc::new(Trust::system())), clock);
        // A token that was judged as bad is found like a good one, and then refused, which costs more.
        let token = format!("{}.{}.{}", "eyJhbGciOiJIUzI1NiJ9", "e30", "x".repeat(1200));
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}"))?);
        drop(server.admit(&headers).await);
        let before = spent()?;
        for _ in 0..TIMES {
            drop(server.admit(&headers).await);
        }
        println!("{} ns of processor time for one request", (spent()? - before) / TIMES);
        Ok(())
    })
}

/// Processor time of this thread so far, in nanoseconds.
fn spent() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(stat.split(' ').next().unwrap_or_default().parse()?)
}

fn config() -> ServerConfig {
    ServerConfig {
        base_url: "https://muster.example".to_owned(),
        resource: None,
        provider: ProviderConfig {
            kind: Kind::Oidc,
            issuer: "https://dex.example".to_owned(),
            client_id: "muster".to_owned(),
            client_secret: String::new().into(),
            connector: None,
            audiences: Vec::new(),
            reach: Reach::Public,
            patience: Duration::from_secs(1),
        },
        trusted_audiences: Vec::new(),
        trusted_issuers: Vec::<Trusted>::new(),
        registration_token: None,
        public_registration: false,
        trusted_schemes: Vec::new(),
        trusted_uris: Vec::new(),
        cimd: None,
        localhost_redirects: true,
        session: Duration::from_secs(3600),
        origins: Vec::new(),
        proxies: Proxies::default(),
    }
}
