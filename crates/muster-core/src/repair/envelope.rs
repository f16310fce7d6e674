//! The envelope of `call_tool`: `{"name": …, "arguments": {…}}`, and its common malformations.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    RepairedCall, ToolLookup, UnreadableCall,
    advice::{self, Advice},
    lenient_object::{LenientObject, members, text},
    schema_view::SchemaView,
    values::is_valid,
};
use crate::{
    catalog::ToolEntry,
    json::{Raw, RawObject},
    text::shortened,
};

/// The meta-tool of the envelope.
const CALL_TOOL: &str = "call_tool";
/// The maximum nesting of envelopes.
const MAX_NESTING: usize = 4;

type Members = Vec<(String, Raw)>;

/// Reads the arguments of `call_tool`.
pub fn read<'a>(given: &RawValue, lookup: &ToolLookup<'a>) -> Result<RepairedCall, UnreadableCall> {
    if let Some(call) = RawObject::parse(given).and_then(|given| well_formed(&given, lookup)) {
        return Ok(call);
    }
    let mut repairs = Vec::new();
    let given = match LenientObject::of(given) {
        LenientObject::Object(raw) => raw,
        LenientObject::Text(raw) => {
            repairs.push("read the call from JSON text".to_owned());
            raw
        }
        LenientObject::Nothing | LenientObject::Other => {
            return Err(UnreadableCall::MissingTool { fix: None });
        }
    };
    let (tool, rest) = split_name(members(&given).unwrap_or_default(), lookup, &mut repairs)?;
    match lookup(&tool) {
        Some(entry) => {
            Call { entry, tool, shape: SchemaView::of(&entry.input_schema), repairs }.collect(rest)
        }
        // The call will fail, but if the tool appears in the meantime, no argument is lost.
        None => Ok(RepairedCall { tool, arguments: unknown(rest), repairs }),
    }
}

/// The call, if it is well-formed and names an existing tool.
pub fn well_formed<'a>(given: &RawObject<'_>, lookup: &ToolLookup<'a>) -> Option<RepairedCall> {
    if given.iter().any(|(key, _)| !["name", "arguments"].contains(&key)) {
        return None;
    }
    let tool = given.get_text("name")?;
    let entry = lookup(&tool)?;
    let arguments = match given.get("arguments") {
        None => RawObject::new().to_raw(),
        Some(arguments) => {
            let inside = RawObject::parse(arguments)?;
            let nested = inside.iter().any(|(key, _)| is_arguments(key));
            let undeclared = |(key, _): (&str, _)| !takes(entry, key);
            if nested || inside.iter().any(undeclared) {
                return None;
            }
            arguments.to_owned()
        }
    };
    Some(RepairedCall { tool, arguments, repairs: Vec::new() })
}

/// Whether a tool accepts an argument. A CLI tool would ignore unknown ones; an MCP server
/// validates them itself.
fn takes(entry: &ToolEntry, name: &str) -> bool {
    entry.params.as_ref().is_none_or(|params| params.iter().any(|param| param.name == name))
}

/// Separates the tool name from the other members.
fn split_name<'a>(
    mut members: Members,
    lookup: &ToolLookup<'a>,
    repairs: &mut Vec<String>,
) -> Result<(String, Members), UnreadableCall> {
    for _ in 0..MAX_NESTING {
        let Some((at, text)) = name(&members, lookup) else {
            members = only_call(&members, lookup)?;
            repairs.push("took the call out of the object around it".to_owned());
            continue;
        };
        let (key, _) = members.remove(at);
        if text == CALL_TOOL && lookup(CALL_TOOL).is_none() {
            if name(&members, lookup).is_none_or(|(_, text)| !is_known(&text, lookup)) {
                members = second_call(members)?;
            }
            repairs.push("took the call out of a second `call_tool` around it".to_owned());
            continue;
        }
        if key != "name" {
            repairs.push(format!("read the tool's name from `{key}`"));
        }
        return Ok((text, members));
    }
    Err(no_name())
}

/// The member that names the tool: one with the name of an existing tool, else `name`, else the
/// first.
fn name<'a>(members: &Members, lookup: &ToolLookup<'a>) -> Option<(usize, String)> {
    let named = |(at, (key, raw)): (usize, &(String, Raw))| {
        let text = text(raw)?.trim().to_owned();
        (is_name(key) && !text.is_empty()).then_some((at, text))
    };
    let all = || members.iter().enumerate().filter_map(named);
    let known = |(_, text): &(usize, String)| is_known(text, lookup);
    let is_plain =
        |(at, _): &(usize, String)| members.get(*at).is_some_and(|(key, _)| key == "name");
    let plain = all().find(is_plain);
    if plain.as_ref().is_some_and(known) {
        return plain;
    }
    all().find(known).or(plain).or_else(|| all().next())
}

fn is_known<'a>(text: &str, lookup: &ToolLookup<'a>) -> bool {
    text == CALL_TOOL || lookup(text).is_some()
}

/// The only member that is itself a call, for a call without a name.
fn only_call<'a>(given: &Members, lookup: &ToolLookup<'a>) -> Result<Members, UnreadableCall> {
    let empty = given.is_empty();
    let mut calls = given.iter().filter_map(|(_, raw)| {
        let inside = members(&LenientObject::of(raw).object()?)?;
        name(&inside, lookup).filter(|(_, text)| is_known(text, lookup)).map(|_| inside)
    });
    match (calls.next(), calls.next(), given.len()) {
        (Some(call), None, 1) => Ok(call),
        _ if empty => Err(UnreadableCall::MissingTool { fix: None }),
        _ => Err(no_name()),
    }
}

/// The call inside a call of `call_tool` itself, merged with its sibling members.
fn second_call(mut given: Members) -> Result<Members, UnreadableCall> {
    let is_call = |(key, raw): &(String, Raw)| {
        let inside = LenientObject::of(raw).object().filter(|_| is_arguments(key));
        inside.is_some_and(|inside| {
            RawObject::parse(&inside)
                .is_some_and(|inside| inside.iter().any(|(key, _)| is_name(key)))
        })
    };
    let at = given.iter().position(is_call).ok_or_else(no_name)?;
    let (_, raw) = given.remove(at);
    let mut call =
        LenientObject::of(&raw).object().and_then(|raw| members(&raw)).unwrap_or_default();
    for (key, raw) in given {
        if !call.iter().any(|(taken, _)| *taken == key) {
            call.push((key, raw));
        }
    }
    Ok(call)
}

fn no_name() -> UnreadableCall {
    let fix = r#"send {"name":"<tool>","arguments":{…}}"#.to_owned();
    UnreadableCall::MissingTool { fix: Some(fix) }
}

/// The arguments for a tool that does not exist, unchanged.
fn unknown(rest: Members) -> Raw {
    if let [(key, arguments)] = rest.as_slice()
        && key == "arguments"
    {
        return arguments.clone();
    }
    let mut object = RawObject::new();
    for (key, raw) in rest {
        object.set(key, Cow::Owned(raw));
    }
    object.to_raw()
}

/// A call of an existing tool.
struct Call<'a> {
    entry: &'a ToolEntry,
    tool: String,
    shape: SchemaView,
    repairs: Vec<String>,
}

impl Call<'_> {
    /// Collects the arguments from the members other than the name.
    fn collect(mut self, mut rest: Members) -> Result<RepairedCall, UnreadableCall> {
        let mut arguments = self.plain(&mut rest)?;
        let none = arguments.as_deref().is_none_or(is_empty);
        if none && let Some(found) = self.under_alias(&mut rest)? {
            arguments = Some(found);
        }
        let no_arguments = arguments.as_deref().is_none_or(is_empty);
        let mut arguments = arguments.unwrap_or_else(|| RawObject::new().to_raw());
        for (key, raw) in rest {
            if let Some(joined) = self.add_sibling(&arguments, &key, raw, no_arguments)? {
                self.repairs.push(format!("moved `{}` into `arguments`", shortened(&key)));
                arguments = joined;
            }
        }
        for _ in 0..MAX_NESTING {
            let Some((key, inside)) = self.nested_arguments(&arguments) else { break };
            self.repairs.push(format!("took the arguments out of a second `{key}`"));
            arguments = inside;
        }
        let undeclared = RawObject::parse(&arguments).and_then(|inside| {
            inside.iter().map(|(key, _)| key.to_owned()).find(|key| !takes(self.entry, key))
        });
        match undeclared {
            Some(key) => Err(self.undeclared(&key)),
            None => Ok(RepairedCall { tool: self.tool, arguments, repairs: self.repairs }),
        }
    }

    /// Takes the value of `arguments`.
    fn plain(&mut self, rest: &mut Members) -> Result<Option<Raw>, UnreadableCall> {
        let Some(at) = rest.iter().position(|(key, _)| key == "arguments") else { return Ok(None) };
        let (_, raw) = rest.remove(at);
        match LenientObject::of(&raw) {
            LenientObject::Object(raw) => Ok(Some(raw)),
            LenientObject::Text(raw) => {
                self.repairs.push("read `arguments` from JSON text".to_owned());
                Ok(Some(raw))
            }
            LenientObject::Nothing => {
                self.repairs.push(format!("took `arguments: {}` as none", raw.get()));
                Ok(None)
            }
            LenientObject::Other => Err(self.not_an_object()),
        }
    }

    /// Takes the arguments from a key such as `args`.
    fn under_alias(&mut self, rest: &mut Members) -> Result<Option<Raw>, UnreadableCall> {
        let opens = |key: &str, raw: &RawValue| match LenientObject::of(raw) {
            LenientObject::Object(_) | LenientObject::Text(_) => true,
            LenientObject::Nothing => !self.shape.declares(key),
            LenientObject::Other => false,
        };
        let mut candidates = rest
            .iter()
            .enumerate()
            .filter(|(_, (key, raw))| is_arguments(key) && opens(key, raw))
            .map(|(at, _)| at);
        let (Some(at), second) = (candidates.next(), candidates.next()) else { return Ok(None) };
        let Some((key, raw)) = rest.get(at).cloned() else { return Ok(None) };
        if second.is_some() {
            return Err(self.ambiguous("the arguments are given under two names".to_owned()));
        }
        let arguments =
            LenientObject::of(&raw).object().unwrap_or_else(|| RawObject::new().to_raw());
        if self.shape.declares(&key) && !self.contains_arguments(&key, &raw, &arguments)? {
            return Ok(None);
        }
        rest.remove(at);
        self.repairs.push(format!("read the arguments from `{key}`"));
        Ok(Some(arguments))
    }

    /// Whether a member named like an argument of the tool contains all of its arguments instead.
    fn contains_arguments(
        &self,
        key: &str,
        raw: &Raw,
        inside: &Raw,
    ) -> Result<bool, UnreadableCall> {
        let mut alone = RawObject::new();
        alone.set(key, Cow::Borrowed(&**raw));
        let known = RawObject::parse(inside)
            .is_some_and(|inside| inside.iter().all(|(key, _)| self.shape.declares(key)));
        match (is_valid(self.entry, &alone.to_raw()), known && is_valid(self.entry, inside)) {
            (true, false) => Ok(false),
            (false, true) => Ok(true),
            _ => Err(self.ambiguous(format!("`{key}` may be one argument or all of them"))),
        }
    }

    /// Adds a sibling of the name to the arguments; `None` if that changes nothing.
    fn add_sibling(
        &self,
        arguments: &RawValue,
        key: &str,
        raw: Raw,
        no_arguments: bool,
    ) -> Result<Option<Raw>, UnreadableCall> {
        let repeats_tool = is_name(key) && text(&raw).is_some_and(|text| text.trim() == self.tool);
        let declared = self.shape.declares(key);
        if key == "_meta" || (repeats_tool && !declared) {
            return Ok(None);
        }
        let mut object = RawObject::parse(arguments).unwrap_or_default();
        match object.get(key) {
            Some(inside) if inside.get() == raw.get() => Ok(None),
            Some(_) => {
                let key = shortened(key);
                Err(self.ambiguous(format!("`{key}` is given twice, with two values")))
            }
            None if declared || (no_arguments && self.shape.is_open()) => {
                object.set(key.to_owned(), Cow::Owned(raw));
                Ok(Some(object.to_raw()))
            }
            None => Err(self.undeclared(key)),
        }
    }

    /// The arguments nested in the arguments, and their key.
    fn nested_arguments(&self, arguments: &RawValue) -> Option<(String, Raw)> {
        let object = RawObject::parse(arguments)?;
        let tool = |raw: &RawValue| text(raw).is_some_and(|text| text.trim() == self.tool);
        let mut others = object.iter().filter(|(key, raw)| !(is_name(key) && tool(raw)));
        let (Some((key, raw)), None) = (others.next(), others.next()) else { return None };
        if !is_arguments(key) || self.shape.declares(key) {
            return None;
        }
        let inside = LenientObject::of(raw).object()?;
        let known = RawObject::parse(&inside)?.iter().all(|(key, _)| self.shape.declares(key));
        let only_fit = || is_valid(self.entry, &inside) && !is_valid(self.entry, arguments);
        ((known && !self.shape.is_open()) || only_fit()).then(|| (key.to_owned(), inside.clone()))
    }

    fn not_an_object(&self) -> UnreadableCall {
        UnreadableCall::NotAnObject { fix: self.send() }
    }

    fn ambiguous(&self, problem: String) -> UnreadableCall {
        UnreadableCall::Ambiguous { problem, fix: self.send(), fragment: None }
    }

    fn undeclared(&self, key: &str) -> UnreadableCall {
        let Advice { fix, fragment } = advice::undeclared(&self.tool, &self.shape, key);
        let problem = format!("`{}` does not take `{}`", shortened(&self.tool), shortened(key));
        UnreadableCall::Ambiguous { problem, fix, fragment }
    }

    fn send(&self) -> String {
        format!("send {}", advice::example(&self.tool, &self.shape))
    }
}

fn is_empty(raw: &RawValue) -> bool {
    RawObject::parse(raw).is_none_or(|object| object.is_empty())
}

/// Whether a key is a common alternative to `name`.
fn is_name(key: &str) -> bool {
    let names = ["name", "tool", "toolname", "toolid", "function", "functionname"];
    is_one_of(key, &names)
}

/// Whether a key is a common alternative to `arguments`.
fn is_arguments(key: &str) -> bool {
    let names = [
        "arguments",
        "args",
        "params",
        "parameters",
        "input",
        "inputs",
        "kwargs",
        "toolargs",
        "toolarguments",
        "toolinput",
        "toolparams",
        "toolparameters",
    ];
    is_one_of(key, &names)
}

/// Whether a key is one of `names`, without case and separators: `tool_args`, `toolArgs` and `Tool-Args` are
/// equal.
fn is_one_of(key: &str, names: &[&str]) -> bool {
    let plain = key.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
    names.iter().any(|name| plain.clone().map(|byte| byte.to_ascii_lowercase()).eq(name.bytes()))
}
