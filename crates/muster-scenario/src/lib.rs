//! `muster test`: scenarios run against a real `muster serve`, seen from outside only.
//!
//! A scenario is a YAML file: what there is before ([`scenario::PreConfiguration`]), which tools are
//! called one after the other, and what each answer must look like. Every scenario gets a process of
//! its own, with its own directory, port and mock servers; nothing is shared and nothing is left.
//!
//! **Invariant:** this crate never uses the code that it judges. It has its own client, its own mock
//! servers and its own idea of the wire, so a mistake there cannot hide one here.

pub mod budget;
pub mod builtin;
pub mod client;
pub mod duration;
pub mod expect;
pub mod goform;
pub mod instance;
pub mod load;
pub mod mcp_server;
pub mod mock;
pub mod oauth;
pub mod options;
pub mod report;
pub mod run;
pub mod scenario;
pub mod schema;
pub mod template;
pub mod wire;

mod http;
mod step;
mod subject;
