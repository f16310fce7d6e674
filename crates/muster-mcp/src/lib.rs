//! The MCP wire and its server side: messages, protocol eras, and the server transports.
//!
//! **Invariant:** only this crate and `muster-mcp-client` know JSON-RPC, and nothing here knows what a tool
//! does. Bytes come in, a [`muster_core::request::Request`] goes through, bytes go out.

mod change_notifications;
mod client_channel;
pub mod curl_line;
pub mod headers;
pub mod http;
mod incoming;
mod inline_repoll;
mod input_requests;
mod log_level;
mod model;
pub mod param_headers;
mod replica_names;
mod reply_to;
pub mod server;
mod session;
pub mod stdio;
mod subscriptions;
pub mod version;
pub mod wire;
mod woken_poll;

use muster_core::lock;
