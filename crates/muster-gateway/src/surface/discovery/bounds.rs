//! The bounds that a caller may set: a token budget for the reply, and an effect ceiling for the tool.

use muster_core::{catalog::ToolEntry, effect::Effect};

use crate::{
    dispatch::GatewaySnapshot,
    surface::meta::{arguments::MetaArguments, budget::Budget},
};

/// The bounds of one call; none by default.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// The token budget of the reply.
    pub(super) budget: Option<Budget>,
    /// The strongest effect that the tool may have.
    pub(super) effect: Option<Effect>,
}

impl Bounds {
    /// Reads the bounds, or explains what is wrong with them.
    pub(super) fn read(given: &MetaArguments<'_>) -> Result<Self, String> {
        let budget = match given.raw("max_tokens") {
            Some(_) => Some(Budget::of(given, Self::UNSAID)?),
            None => None,
        };
        let word = given.text_only("effect")?;
        let effect = word.as_deref().map(|word| {
            let unknown = || "effect must be `read`, `write` or `destructive`".to_owned();
            Effect::parse(&word.to_lowercase()).ok_or_else(unknown)
        });
        Ok(Self { budget, effect: effect.transpose()? })
    }

    /// Whether a tool is within the effect ceiling.
    pub(super) fn admits(self, state: &GatewaySnapshot, entry: &ToolEntry) -> bool {
        self.effect.is_none_or(|most| state.policy.effect(entry) <= most)
    }

    /// The budget for `max_tokens: null`, which requests a short reply without saying how short.
    pub(super) const UNSAID: usize = 4_000;
}

#[cfg(test)]
mod tests {
    use muster_core::effect::Effect;
    use serde_json::value::RawValue;

    use super::Bounds;
    use crate::surface::meta::{arguments::MetaArguments, budget::Budget};

    #[track_caller]
    fn check(given: &str, expect: Result<(Option<usize>, Option<Effect>), &str>) {
        let raw: &RawValue = serde_json::from_str(given).unwrap();
        let read = Bounds::read(&MetaArguments::read(raw));
        let expect = expect.map(|(budget, effect)| Bounds { budget: budget.map(Budget), effect });
        assert_eq!(read, expect.map_err(ToOwned::to_owned), "{given}");
    }

    #[test]
    fn what_is_not_said_is_not_set() {
        check("{}", Ok((None, None)));
        check(r#"{"effect":""}"#, Ok((None, None)));
        check(r#"{"max_tokens":500,"effect":"Read"}"#, Ok((Some(500), Some(Effect::Read))));
        check(r#"{"max_tokens":null}"#, Ok((Some(4_000), None)));
        check(r#"{"max_tokens":1e12,"effect":null}"#, Ok((Some(1_000_000), None)));
        check(r#"{"effect":["read"]}"#, Err("effect must be text"));
        check(r#"{"max_tokens":5}"#, Err("max_tokens must be at least 300"));
        check(r#"{"effect":"all"}"#, Err("effect must be `read`, `write` or `destructive`"));
    }
}
