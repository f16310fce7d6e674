//! Log levels, as the protocol names them.

/// The levels, least severe first.
const NAMES: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The severity of a log message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LogLevel(u8);

impl LogLevel {
    /// The least severe level.
    pub(crate) const DEBUG: Self = Self(0);

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        (0_u8..).zip(NAMES).find(|(_, known)| *known == name).map(|(level, _)| Self(level))
    }

    pub(crate) const fn to_u8(self) -> u8 {
        self.0
    }

    pub(crate) const fn from_u8(level: u8) -> Self {
        Self(level)
    }
}

#[cfg(test)]
mod tests {
    use super::LogLevel;

    #[test]
    fn levels_are_ordered_by_severity() {
        assert!(LogLevel::from_name("warning") > LogLevel::from_name("info"));
        assert_eq!(LogLevel::from_name("debug"), Some(LogLevel::DEBUG));
        assert_eq!(LogLevel::from_name("loud"), None);
    }
}
