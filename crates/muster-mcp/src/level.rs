//! How severe a log line is, as the protocol names it.

/// The levels, least severe first.
const NAMES: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A place in the order of severity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Level(u8);

impl Level {
    /// The least severe one: everything is wanted.
    pub(crate) const LEAST: Self = Self(0);

    /// The level of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        (0_u8..).zip(NAMES).find(|(_, known)| *known == name).map(|(place, _)| Self(place))
    }

    pub(crate) const fn place(self) -> u8 {
        self.0
    }

    pub(crate) const fn at(place: u8) -> Self {
        Self(place)
    }
}

#[cfg(test)]
mod tests {
    use super::Level;

    #[test]
    fn ordered_by_severity() {
        assert!(Level::named("warning") > Level::named("info"));
        assert_eq!(Level::named("debug"), Some(Level::LEAST));
        assert_eq!(Level::named("loud"), None);
    }
}
