//! The commands of `muster`, one file each.

pub(crate) mod agent;
pub(crate) mod connect;
pub(crate) mod import;
pub(crate) mod serve;
pub(crate) mod standalone;
pub(crate) mod test;
