//! What is wrong between an agent and its tools, hop by hop, and what to do about it.

pub(crate) mod checks;
pub(crate) mod servers;

use serde::Serialize;

/// A place between an agent and a tool where things go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Hop {
    /// The files.
    Config,
    /// The programs of CLIs and local servers.
    Programs,
    /// The gateway and its port.
    Gateway,
    /// The certificates of remote servers.
    Certificates,
    /// The first words with each server.
    Handshake,
    /// The user's logins.
    Login,
}

impl Hop {
    /// The exit code when this is the first broken hop.
    const fn exit_code(self) -> u8 {
        match self {
            Self::Config => 10,
            Self::Programs => 11,
            Self::Gateway => 12,
            Self::Certificates => 13,
            Self::Handshake => 14,
            Self::Login => 15,
        }
    }
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// As it should be.
    Good,
    /// Worth a look.
    Warning,
    /// Broken.
    Bad,
}

/// What one check found.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) hop: Hop,
    pub(crate) verdict: Verdict,
    /// What was looked at.
    pub(crate) what: String,
    /// What was found.
    pub(crate) said: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fix: Option<String>,
}

impl Finding {
    pub(crate) fn good(hop: Hop, what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { hop, verdict: Verdict::Good, what: what.into(), said: said.into(), fix: None }
    }

    pub(crate) fn warning(hop: Hop, what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warning, ..Self::good(hop, what, said) }
    }

    pub(crate) fn bad(hop: Hop, what: impl Into<String>, said: impl Into<String>) -> Self {
        Self { verdict: Verdict::Bad, ..Self::good(hop, what, said) }
    }

    #[must_use]
    pub(crate) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// The exit code for what was found: that of the first broken hop.
pub(crate) fn exit_code(findings: &[Finding]) -> u8 {
    let broken = findings.iter().filter(|found| found.verdict == Verdict::Bad);
    broken.map(|found| found.hop).min().map_or(0, Hop::exit_code)
}

#[cfg(test)]
mod tests {
    use super::{Finding, Hop, exit_code};

    #[test]
    fn the_first_broken_hop_decides() {
        let good = Finding::good(Hop::Config, "a", "b");
        let late = Finding::bad(Hop::Login, "a", "b");
        let early = Finding::bad(Hop::Programs, "a", "b");
        assert_eq!(exit_code(&[good.clone(), Finding::warning(Hop::Config, "a", "b")]), 0);
        assert_eq!(exit_code(&[good, late.clone()]), 15);
        assert_eq!(exit_code(&[late, early]), 11);
    }
}
