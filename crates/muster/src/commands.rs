//! The commands of `muster`, one file each.

pub(crate) mod agent;
pub(crate) mod asking;
pub(crate) mod auth;
pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod completion;
pub(crate) mod connect;
pub(crate) mod context;
pub(crate) mod create;
pub(crate) mod doctor;
pub(crate) mod events;
pub(crate) mod get;
pub(crate) mod import;
pub(crate) mod kinds;
pub(crate) mod list;
pub(crate) mod models;
pub(crate) mod search;
pub(crate) mod self_update;
pub(crate) mod serve;
pub(crate) mod standalone;
pub(crate) mod start;
pub(crate) mod stop;
pub(crate) mod test;
<<<<<<< HEAD
pub(crate) mod top;
=======
pub(crate) mod tokens;
>>>>>>> discovery
pub(crate) mod version;
pub(crate) mod words;
