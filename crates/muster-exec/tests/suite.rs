//! Tests of running processes.
