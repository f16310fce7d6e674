//! What a caller says about an answer beside what it asks for: what it may cost, and the most that a
//! tool may do.

use muster_core::{catalog::ToolEntry, effect::Effect};

use crate::{
    dispatch::GatewaySnapshot,
    surface::meta::{arguments::MetaArguments, budget::Budget},
};

/// What a caller sets; nothing where it says nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// What the answer may cost.
    pub(super) budget: Option<Budget>,
    /// The most that a tool may do.
    pub(super) effect: Option<Effect>,
}

impl Bounds {
    /// Reads them, or says what makes no sense.
    pub(super) fn read(given: &MetaArguments<'_>) -> Result<Self, String> {
        let budget = match given.raw("max_tokens") {
            Some(_) => Some(Budget::of(given, Self::UNSAID)?),
            None => None,
        };
        let word = given.text("effect");
        let effect = word.as_deref().map(|word| {
            let unknown = || "effect must be `read`, `write` or `destructive`".to_owned();
            Effect::parse(&word.to_lowercase()).ok_or_else(unknown)
        });
        Ok(Self { budget, effect: effect.transpose()? })
    }

    /// Whether a tool does no more than it may.
    pub(super) fn admits(self, state: &GatewaySnapshot, entry: &ToolEntry) -> bool {
        self.effect.is_none_or(|most| state.policy.effect(entry) <= most)
    }

    /// Why a tool is not run that may do worse than its caller said.
    pub(super) fn refusal(self, state: &GatewaySnapshot, entry: &ToolEntry) -> Option<String> {
        let most = self.effect.filter(|_| !self.admits(state, entry))?;
        let (name, effect) = (&entry.name, state.policy.effect(entry));
        Some(format!(
            "`{name}` is {effect}, and the call said `{most}`\n\
             hint: if that is wanted, call again with effect `{effect}`"
        ))
    }

    /// `max_tokens: null` asks for a short answer, and does not say how short.
    const UNSAID: usize = 4_000;
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
        check(r#"{"max_tokens":5}"#, Err("max_tokens must be at least 300"));
        check(r#"{"effect":"all"}"#, Err("effect must be `read`, `write` or `destructive`"));
    }
}
