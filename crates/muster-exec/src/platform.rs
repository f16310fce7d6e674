//! The port to the operating system: features of Linux beyond POSIX, and their substitutes elsewhere.
//!
//! **Invariant:** code that depends on the operating system is here and nowhere else (`tidy.rs`); both
//! implementations have the same functions.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod posix;

#[cfg(target_os = "linux")]
pub(crate) use linux::*;
#[cfg(not(target_os = "linux"))]
pub(crate) use posix::*;
