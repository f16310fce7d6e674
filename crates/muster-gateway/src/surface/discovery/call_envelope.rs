//! The arguments of `climax_call`: `{"tool_name": …, "args": {…}}`, and the variants that agents send instead.
//!
//! A call that CLImax accepts is read as CLImax reads it. A call that it refuses is repaired if there is only one
//! reading, as for `call_tool`; otherwise CLImax's error stays, with the fix as structured content beside it.

use std::borrow::Cow;

use muster_core::{
    arguments::Arguments,
    call::Outcome,
    catalog::ToolEntry,
    json::{Raw, RawObject, raw},
    repair::{RepairedCall, ToolLookup, UnreadableCall, envelope},
    schema, suggest,
    text::shortened,
};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::surface::meta::projection;

/// The arguments of `climax_call`, listed in its schema or not.
const OWN: [&str; 8] =
    ["tool_name", "args", "max_tokens", "effect", "select", "grep", "head", "_meta"];

/// How to fix a call of another shape.
const SEND: &str = "send {\"tool_name\": \"…\", \"args\": {…}}";
const SEND_OBJECT: &str = "send `args` as a JSON object";

/// A call as it was understood.
#[derive(Debug, Default)]
pub(super) struct ReadCall {
    pub(super) tool: String,
    pub(super) arguments: Option<Raw>,
    /// The keys beside `args` that are arguments of the tool.
    pub(super) moved: Vec<String>,
    pub(super) remarks: Remarks,
}

/// Remarks about the call, beside the text of the answer.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Remarks {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) repaired: Vec<String>,
    /// Keys that have no effect.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ignored: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

/// Reads a call, or explains what is wrong with it.
pub(super) fn read<'a>(given: &RawValue, lookup: &ToolLookup<'a>) -> Result<ReadCall, Outcome> {
    let mut members = RawObject::parse(given).unwrap_or_default();
    // Agents send `args: null` for a tool without arguments.
    if members.get("args").is_some_and(|args| args.get() == "null") {
        members.remove("args");
    }
    let shape = [("tool_name", "string", true), ("args", "object", false)];
    let checked = Arguments::from_json(&members.to_raw());
    let mut call = match schema::check_shape(&shape, &checked) {
        None => as_specified(&members, lookup),
        Some(message) => repaired(&members, lookup)
            .map_err(|fix| refused(&format!("Input validation error: {message}"), fix))?,
    };
    if let (Some(entry), Some(arguments)) = (lookup(&call.tool), &call.arguments) {
        call.remarks.add_unknown(entry, arguments);
    }
    Ok(call)
}

/// Reads a call of the specified shape.
fn as_specified<'a>(members: &RawObject<'_>, lookup: &ToolLookup<'a>) -> ReadCall {
    let tool = members.get_text("tool_name").unwrap_or_default();
    let arguments = members.get("args").and_then(RawObject::parse);
    let no_arguments = arguments.as_ref().is_none_or(RawObject::is_empty);
    let mut arguments = arguments.unwrap_or_default();
    let mut remarks = Remarks::default();
    let mut moved = Vec::new();
    let takes = |key: &str| lookup(&tool).is_some_and(|entry| entry.declares(key));
    // A tool may have an argument with the name of one of ours.
    let for_tool = |key: &str| no_arguments && projection::ARGUMENTS.contains(&key) && takes(key);
    let is_own = |key: &str| OWN.contains(&key) && !for_tool(key);
    for (key, value) in members.iter().filter(|(key, _)| !is_own(key)) {
        if no_arguments && takes(key) {
            arguments.set(key.to_owned(), Cow::Owned(value.to_owned()));
            remarks.repaired.push(format!("moved `{}` into `args`", shortened(key)));
            moved.push(key.to_owned());
        } else {
            remarks.ignored.push(shortened(key).into_owned());
        }
    }
    ReadCall { tool, arguments: Some(arguments.to_raw()), moved, remarks }
}

/// Reads a call of another shape, or returns the fix if there is one.
fn repaired<'a>(
    members: &RawObject<'_>,
    lookup: &ToolLookup<'a>,
) -> Result<ReadCall, Option<String>> {
    let mut given = members.clone();
    if members.get_text("tool_name").is_some() {
        let text = members.get_text("args");
        let args: Option<Raw> = text.and_then(|text| serde_json::from_str(&text).ok());
        let args = args.filter(|args| RawObject::parse(args).is_some());
        given.set("args", Cow::Owned(args.ok_or_else(|| Some(SEND_OBJECT.to_owned()))?));
        let mut call = as_specified(&given, lookup);
        call.remarks.repaired.push("read `args` from JSON text".to_owned());
        return Ok(call);
    }
    if let Some(mut call) = as_for_call_tool(members, lookup) {
        call.remarks.repaired.push("read `name` as `tool_name`, `arguments` as `args`".to_owned());
        return Ok(call);
    }
    for bound in ["max_tokens", "effect"].into_iter().chain(projection::ARGUMENTS) {
        given.remove(bound);
    }
    match envelope::read(&given.to_raw(), lookup) {
        Ok(RepairedCall { tool, arguments, repairs }) if lookup(&tool).is_some() => {
            let remarks = Remarks { repaired: repairs, ..Remarks::default() };
            Ok(ReadCall { tool, arguments: Some(arguments), remarks, ..ReadCall::default() })
        }
        Ok(_) | Err(UnreadableCall::MissingTool { .. }) => Err(None),
        Err(UnreadableCall::NotAnObject { .. } | UnreadableCall::Ambiguous { .. }) => {
            Err(Some(SEND.to_owned()))
        }
    }
}

/// Reads `{"name": …, "arguments": {…}}`, as other gateways and protocols write a call.
fn as_for_call_tool<'a>(members: &RawObject<'_>, lookup: &ToolLookup<'a>) -> Option<ReadCall> {
    let tool = members.get_text("name").filter(|tool| lookup(tool).is_some())?;
    if members.get("args").is_some() || members.get("tool_name").is_some() {
        return None;
    }
    let mut given = RawObject::new();
    given.set_value("tool_name", &tool);
    if let Some(arguments) = members.get("arguments") {
        RawObject::parse(arguments)?;
        given.set("args", Cow::Borrowed(arguments));
    }
    let others = members.iter().filter(|(key, _)| !["name", "arguments"].contains(key));
    others.for_each(|(key, value)| given.append(key, Cow::Borrowed(value)));
    Some(as_specified(&given, lookup))
}

fn refused(text: &str, fix: Option<String>) -> Outcome {
    let details = fix.map(|fix| {
        let mut details = RawObject::new();
        details.set_value("error", text);
        details.set_value("hint", &fix);
        details.to_raw()
    });
    Outcome::Text { text: text.to_owned(), failed: true, details }
}

impl Remarks {
    /// Names the arguments that are not among the known ones.
    pub(super) fn ignoring(given: &RawValue, known: &[&str]) -> Self {
        let members = RawObject::parse(given).unwrap_or_default();
        let unknown = members.iter().map(|(key, _)| key).filter(|key| !known.contains(key));
        let mut remarks = Self::default();
        for key in unknown {
            let near = suggest::similar(key, known.iter().copied());
            if let (Some(near), None) = (near.first(), &remarks.hint) {
                remarks.hint =
                    Some(format!("there is no argument `{key}`; did you mean `{near}`?"));
            }
            remarks.ignored.push(shortened(key).into_owned());
        }
        remarks
    }

    /// Adds the arguments that a CLI tool ignores. An MCP server checks its arguments itself.
    fn add_unknown(&mut self, entry: &ToolEntry, arguments: &RawValue) {
        let Some(params) = &entry.params else { return };
        let arguments = RawObject::parse(arguments).unwrap_or_default();
        let known = |key: &str| params.iter().any(|param| param.name == key);
        let unknown = arguments.iter().map(|(key, _)| key).filter(|key| !known(key));
        for key in unknown {
            let names = params.iter().map(|param| param.name.as_str());
            let near = suggest::similar(key, names).first().map(|near| (*near).to_owned());
            if let (Some(near), None) = (near, &self.hint) {
                let tool = &entry.name;
                self.hint =
                    Some(format!("`{tool}` has no argument `{key}`; did you mean `{near}`?"));
            }
            self.ignored.push(shortened(key).into_owned());
        }
    }

    /// The outcome with the remarks beside its text.
    pub(super) fn beside(&self, outcome: Outcome) -> Outcome {
        if *self == Self::default() {
            return outcome;
        }
        let own = raw(self);
        let own = RawObject::parse(&own).unwrap_or_default();
        match outcome {
            Outcome::Text { text, failed, details } => {
                let mut all = details.as_deref().and_then(RawObject::parse).unwrap_or_default();
                for (key, value) in own.iter() {
                    if all.get(key).is_none() {
                        all.set(key, Cow::Borrowed(value));
                    }
                }
                Outcome::Text { text, failed, details: Some(all.to_raw()) }
            }
            Outcome::Raw(result) => {
                let Some(mut members) = RawObject::parse(&result) else {
                    return Outcome::Raw(result);
                };
                let meta = members.get("_meta").map(ToOwned::to_owned);
                let mut meta = meta.as_deref().and_then(RawObject::parse).unwrap_or_default();
                for (key, value) in own.iter() {
                    meta.set(format!("muster/{key}"), Cow::Borrowed(value));
                }
                members.set("_meta", Cow::Owned(meta.to_raw()));
                Outcome::Raw(members.to_raw())
            }
            outcome @ Outcome::InputRequired(_) => outcome,
        }
    }
}
