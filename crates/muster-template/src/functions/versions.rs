//! Semantic versions.

use std::rc::Rc;

use super::{Function, ParamType, plain};
use crate::{
    semver::{Version, constraint},
    state::EvalError,
    value::Value,
};

pub(super) const FUNCTIONS: &[Function] = &[
    plain("semver", &[ParamType::Text], |_, args| match Version::parse(&args.str(0)) {
        Ok(version) => Ok(Value::Version(Rc::new(version))),
        Err(problem) => Err(EvalError::new(problem)),
    }),
    plain("semverCompare", &[ParamType::Text; 2], |state, args| {
        // Each of the long patterns may scan the whole text.
        state.charge_scan(args.bytes(0).len().saturating_mul(256))?;
        let version = Version::parse(&args.str(1));
        let fits = version.and_then(|version| constraint::check(&args.str(0), &version));
        fits.map(Value::Bool).map_err(EvalError::new)
    }),
];
