//! Semantic versions.

use std::rc::Rc;

use super::{Function, Type, plain};
use crate::{
    run::Fail,
    semver::{Version, constraint},
    value::Value,
};

pub(super) const FUNCTIONS: &[Function] = &[
    plain("semver", &[Type::Text], |_, args| match Version::parse(&args.str(0)) {
        Ok(version) => Ok(Value::Version(Rc::new(version))),
        Err(problem) => Err(Fail::new(problem)),
    }),
    plain("semverCompare", &[Type::Text; 2], |run, args| {
        // Its patterns are long, and each is tried on the whole text.
        run.read(args.bytes(0).len().saturating_mul(256))?;
        let version = Version::parse(&args.str(1));
        let fits = version.and_then(|version| constraint::check(&args.str(0), &version));
        fits.map(Value::Bool).map_err(Fail::new)
    }),
];
