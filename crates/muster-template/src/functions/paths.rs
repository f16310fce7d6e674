//! Paths, by the rules of Go's `path`; the `os…` functions behave as on Unix.

use super::{Function, ParamType, plain};
use crate::value::Value;

const TEXT: &[ParamType] = &[ParamType::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    plain("base", TEXT, |state, args| state.text(base(&args.str(0)))),
    plain("osBase", TEXT, |state, args| state.text(base(&args.str(0)))),
    plain("dir", TEXT, |state, args| state.text(dir(&args.str(0)))),
    plain("osDir", TEXT, |state, args| state.text(dir(&args.str(0)))),
    plain("clean", TEXT, |state, args| state.text(clean(&args.str(0)))),
    plain("osClean", TEXT, |state, args| state.text(clean(&args.str(0)))),
    plain("ext", TEXT, |state, args| state.text(ext(&args.str(0)))),
    plain("osExt", TEXT, |state, args| state.text(ext(&args.str(0)))),
    plain("isAbs", TEXT, |_, args| Ok(Value::Bool(args.bytes(0).starts_with(b"/")))),
    plain("osIsAbs", TEXT, |_, args| Ok(Value::Bool(args.bytes(0).starts_with(b"/")))),
];

fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    match path.trim_end_matches('/') {
        "" => "/",
        path => path.rsplit('/').next().unwrap_or(path),
    }
}

fn dir(path: &str) -> String {
    let end = path.rfind('/').map_or(0, |at| at + 1);
    clean(path.get(..end).unwrap_or_default())
}

fn ext(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rfind('.').and_then(|at| name.get(at..)).unwrap_or_default()
}

fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if kept.last().is_some_and(|last| *last != "..") => drop(kept.pop()),
            ".." if rooted => {}
            part => kept.push(part),
        }
    }
    match (rooted, kept.is_empty()) {
        (true, _) => format!("/{}", kept.join("/")),
        (false, true) => ".".to_owned(),
        (false, false) => kept.join("/"),
    }
}
