//! Logins against scripted peers over real sockets.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_types,
    reason = "a test may panic, and scripts are shared by a lock"
)]

#[path = "suite/broker.rs"]
mod broker;
#[path = "suite/client_faults.rs"]
mod client_faults;
#[path = "suite/client_tokens.rs"]
mod client_tokens;
#[path = "suite/client_world.rs"]
mod client_world;
#[path = "suite/described.rs"]
mod described;
#[path = "suite/directory.rs"]
mod directory;
#[path = "suite/flows.rs"]
mod flows;
#[path = "suite/idp.rs"]
mod idp;
#[path = "suite/login_faults.rs"]
mod login_faults;
#[path = "suite/login_links.rs"]
mod login_links;
#[path = "suite/our_faults.rs"]
mod our_faults;
#[path = "suite/pins.rs"]
mod pins;
#[path = "suite/shared.rs"]
mod shared;
#[path = "suite/tls.rs"]
mod tls;
#[path = "suite/token_faults.rs"]
mod token_faults;
#[path = "suite/world.rs"]
mod world;
