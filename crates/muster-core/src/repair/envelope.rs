//! The envelope of `call_tool`: `{"name": …, "arguments": {…}}`, and the ways to get it wrong.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::{
    RepairedCall, ToolLookup, UnreadableCall,
    advice::{self, Advice},
    opened::{Opened, members, text},
    shape::Shape,
    values::fits,
};
use crate::{
    catalog::ToolEntry,
    json::{Raw, RawObject},
};

/// The tool whose envelope this is.
const CALL_TOOL: &str = "call_tool";
/// How many envelopes may be inside each other.
const MOST_NESTED: usize = 4;

type Members = Vec<(String, Raw)>;

/// Reads what `call_tool` was given.
pub fn read<'a>(given: &RawValue, look: &ToolLookup<'a>) -> Result<RepairedCall, UnreadableCall> {
    if let Some(meant) = right(given, look) {
        return Ok(meant);
    }
    let mut repairs = Vec::new();
    let given = match Opened::of(given) {
        Opened::Object(raw) => raw,
        Opened::Text(raw) => {
            repairs.push("read the call from JSON text".to_owned());
            raw
        }
        Opened::Nothing | Opened::Other => return Err(UnreadableCall::MissingTool { fix: None }),
    };
    let (tool, rest) = named(members(&given).unwrap_or_default(), look, &mut repairs)?;
    match look(&tool) {
        Some(entry) => {
            Call { entry, tool, shape: Shape::of(&entry.input_schema), repairs }.fit(rest)
        }
        // Nothing runs, but should the tool appear this moment, nothing that was given is lost.
        None => Ok(RepairedCall { tool, arguments: unknown(rest), repairs }),
    }
}

/// A call that is written as it should be.
fn right<'a>(given: &RawValue, look: &ToolLookup<'a>) -> Option<RepairedCall> {
    let object = RawObject::parse(given)?;
    if object.iter().any(|(key, _)| !["name", "arguments"].contains(&key)) {
        return None;
    }
    let tool = object.get_text("name")?;
    let entry = look(&tool)?;
    let arguments = match object.get("arguments") {
        None => RawObject::new().to_raw(),
        Some(arguments) => {
            let inside = RawObject::parse(arguments)?;
            let suspect = inside.iter().any(|(key, _)| is_arguments(key));
            let strange = |(key, _): (&str, _)| !takes(entry, key);
            if suspect || inside.iter().any(strange) {
                return None;
            }
            arguments.to_owned()
        }
    };
    Some(RepairedCall { tool, arguments, repairs: Vec::new() })
}

/// Whether a tool can be given an argument. A CLI tool would pass over what it does not know; an MCP
/// server has its own say.
fn takes(entry: &ToolEntry, name: &str) -> bool {
    entry.params.as_ref().is_none_or(|params| params.iter().any(|param| param.name == name))
}

/// Finds the name of the tool, and what else was given.
fn named<'a>(
    mut members: Members,
    look: &ToolLookup<'a>,
    repairs: &mut Vec<String>,
) -> Result<(String, Members), UnreadableCall> {
    for _ in 0..MOST_NESTED {
        let Some((at, text)) = name(&members, look) else {
            members = only_call(&members, look)?;
            repairs.push("took the call out of the object around it".to_owned());
            continue;
        };
        let (key, _) = members.remove(at);
        if text == CALL_TOOL && look(CALL_TOOL).is_none() {
            if name(&members, look).is_none_or(|(_, text)| !is_known(&text, look)) {
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

/// Which member names the tool: one that names a tool that is there, else `name`, else whichever.
fn name<'a>(members: &Members, look: &ToolLookup<'a>) -> Option<(usize, String)> {
    let named = |(at, (key, raw)): (usize, &(String, Raw))| {
        let text = text(raw)?.trim().to_owned();
        (is_name(key) && !text.is_empty()).then_some((at, text))
    };
    let all = || members.iter().enumerate().filter_map(named);
    let known = |(_, text): &(usize, String)| is_known(text, look);
    let is_plain =
        |(at, _): &(usize, String)| members.get(*at).is_some_and(|(key, _)| key == "name");
    let plain = all().find(is_plain);
    if plain.as_ref().is_some_and(known) {
        return plain;
    }
    all().find(known).or(plain).or_else(|| all().next())
}

fn is_known<'a>(text: &str, look: &ToolLookup<'a>) -> bool {
    text == CALL_TOOL || look(text).is_some()
}

/// The one object in a call without a name that is a call itself.
fn only_call<'a>(given: &Members, look: &ToolLookup<'a>) -> Result<Members, UnreadableCall> {
    let empty = given.is_empty();
    let mut calls = given.iter().filter_map(|(_, raw)| {
        let inside = members(&Opened::of(raw).object()?)?;
        name(&inside, look).filter(|(_, text)| is_known(text, look)).map(|_| inside)
    });
    match (calls.next(), calls.next(), given.len()) {
        (Some(call), None, 1) => Ok(call),
        _ if empty => Err(UnreadableCall::MissingTool { fix: None }),
        _ => Err(no_name()),
    }
}

/// The call inside a call of `call_tool` itself. What stands beside it stays beside it.
fn second_call(mut given: Members) -> Result<Members, UnreadableCall> {
    let is_call = |(key, raw): &(String, Raw)| {
        let inside = Opened::of(raw).object().filter(|_| is_arguments(key));
        inside.is_some_and(|inside| {
            RawObject::parse(&inside)
                .is_some_and(|inside| inside.iter().any(|(key, _)| is_name(key)))
        })
    };
    let at = given.iter().position(is_call).ok_or_else(no_name)?;
    let (_, raw) = given.remove(at);
    let mut call = Opened::of(&raw).object().and_then(|raw| members(&raw)).unwrap_or_default();
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

/// What was given for a tool that is not there, as it came.
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

/// A call of a tool that is there.
struct Call<'a> {
    entry: &'a ToolEntry,
    tool: String,
    shape: Shape,
    repairs: Vec<String>,
}

impl Call<'_> {
    /// Finds the arguments in what was given beside the name.
    fn fit(mut self, mut rest: Members) -> Result<RepairedCall, UnreadableCall> {
        let mut arguments = self.plain(&mut rest)?;
        let none = arguments.as_deref().is_none_or(is_empty);
        if none && let Some(found) = self.under_another_name(&mut rest)? {
            arguments = Some(found);
        }
        let nothing = arguments.as_deref().is_none_or(is_empty);
        let mut arguments = arguments.unwrap_or_else(|| RawObject::new().to_raw());
        for (key, raw) in rest {
            if let Some(joined) = self.beside(&arguments, &key, raw, nothing)? {
                self.repairs.push(format!("moved `{key}` into `arguments`"));
                arguments = joined;
            }
        }
        for _ in 0..MOST_NESTED {
            let Some((key, inside)) = self.wrapped(&arguments) else { break };
            self.repairs.push(format!("took the arguments out of a second `{key}`"));
            arguments = inside;
        }
        let strange = RawObject::parse(&arguments).and_then(|inside| {
            inside.iter().map(|(key, _)| key.to_owned()).find(|key| !takes(self.entry, key))
        });
        match strange {
            Some(key) => Err(self.undeclared(&key)),
            None => Ok(RepairedCall { tool: self.tool, arguments, repairs: self.repairs }),
        }
    }

    /// What `arguments` holds.
    fn plain(&mut self, rest: &mut Members) -> Result<Option<Raw>, UnreadableCall> {
        let Some(at) = rest.iter().position(|(key, _)| key == "arguments") else { return Ok(None) };
        let (_, raw) = rest.remove(at);
        match Opened::of(&raw) {
            Opened::Object(raw) => Ok(Some(raw)),
            Opened::Text(raw) => {
                self.repairs.push("read `arguments` from JSON text".to_owned());
                Ok(Some(raw))
            }
            Opened::Nothing => {
                self.repairs.push(format!("took `arguments: {}` as none", raw.get()));
                Ok(None)
            }
            Opened::Other => Err(self.not_an_object()),
        }
    }

    /// What stands under a name such as `args`.
    fn under_another_name(&mut self, rest: &mut Members) -> Result<Option<Raw>, UnreadableCall> {
        let opens = |key: &str, raw: &RawValue| match Opened::of(raw) {
            Opened::Object(_) | Opened::Text(_) => true,
            Opened::Nothing => !self.shape.declares(key),
            Opened::Other => false,
        };
        let mut places = rest
            .iter()
            .enumerate()
            .filter(|(_, (key, raw))| is_arguments(key) && opens(key, raw))
            .map(|(at, _)| at);
        let (Some(at), second) = (places.next(), places.next()) else { return Ok(None) };
        let Some((key, raw)) = rest.get(at).cloned() else { return Ok(None) };
        if second.is_some() {
            return Err(self.unclear("the arguments are given under two names".to_owned()));
        }
        let arguments = Opened::of(&raw).object().unwrap_or_else(|| RawObject::new().to_raw());
        if self.shape.declares(&key) && !self.is_around(&key, &raw, &arguments)? {
            return Ok(None);
        }
        rest.remove(at);
        self.repairs.push(format!("read the arguments from `{key}`"));
        Ok(Some(arguments))
    }

    /// Whether a member that is called like an argument of the tool is all of its arguments instead.
    fn is_around(&self, key: &str, raw: &Raw, inside: &Raw) -> Result<bool, UnreadableCall> {
        let mut alone = RawObject::new();
        alone.set(key, Cow::Borrowed(&**raw));
        let known = RawObject::parse(inside)
            .is_some_and(|inside| inside.iter().all(|(key, _)| self.shape.declares(key)));
        match (fits(self.entry, &alone.to_raw()), known && fits(self.entry, inside)) {
            (true, false) => Ok(false),
            (false, true) => Ok(true),
            _ => Err(self.unclear(format!("`{key}` may be one argument or all of them"))),
        }
    }

    /// The arguments with one more that stood beside the name; none if it is there already.
    fn beside(
        &self,
        arguments: &RawValue,
        key: &str,
        raw: Raw,
        nothing: bool,
    ) -> Result<Option<Raw>, UnreadableCall> {
        let says_tool = is_name(key) && text(&raw).is_some_and(|text| text.trim() == self.tool);
        let declared = self.shape.declares(key);
        if key == "_meta" || (says_tool && !declared) {
            return Ok(None);
        }
        let mut object = RawObject::parse(arguments).unwrap_or_default();
        match object.get(key) {
            Some(inside) if inside.get() == raw.get() => Ok(None),
            Some(_) => Err(self.unclear(format!("`{key}` is given twice, with two values"))),
            None if declared || (nothing && self.shape.is_open()) => {
                object.set(key.to_owned(), Cow::Owned(raw));
                Ok(Some(object.to_raw()))
            }
            None => Err(self.undeclared(key)),
        }
    }

    /// The arguments inside arguments, under which name.
    fn wrapped(&self, arguments: &RawValue) -> Option<(String, Raw)> {
        let object = RawObject::parse(arguments)?;
        let tool = |raw: &RawValue| text(raw).is_some_and(|text| text.trim() == self.tool);
        let mut others = object.iter().filter(|(key, raw)| !(is_name(key) && tool(raw)));
        let (Some((key, raw)), None) = (others.next(), others.next()) else { return None };
        if !is_arguments(key) || self.shape.declares(key) {
            return None;
        }
        let inside = Opened::of(raw).object()?;
        let known = RawObject::parse(&inside)?.iter().all(|(key, _)| self.shape.declares(key));
        let only_fit = || fits(self.entry, &inside) && !fits(self.entry, arguments);
        ((known && !self.shape.is_open()) || only_fit()).then(|| (key.to_owned(), inside.clone()))
    }

    fn not_an_object(&self) -> UnreadableCall {
        UnreadableCall::NotAnObject { fix: self.send() }
    }

    fn unclear(&self, problem: String) -> UnreadableCall {
        UnreadableCall::Ambiguous { problem, fix: self.send(), fragment: None }
    }

    fn undeclared(&self, key: &str) -> UnreadableCall {
        let Advice { fix, fragment } = advice::undeclared(&self.tool, &self.shape, key);
        let problem = format!("`{}` does not take `{key}`", self.tool);
        UnreadableCall::Ambiguous { problem, fix, fragment }
    }

    fn send(&self) -> String {
        format!("send {}", advice::example(&self.tool, &self.shape))
    }
}

fn is_empty(raw: &RawValue) -> bool {
    RawObject::parse(raw).is_none_or(|object| object.is_empty())
}

/// Whether agents call the name of the tool so.
fn is_name(key: &str) -> bool {
    let names = ["name", "tool", "toolname", "toolid", "function", "functionname"];
    names.contains(&&*plain(key))
}

/// Whether agents call the arguments so.
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
    names.contains(&&*plain(key))
}

/// A key without its dress: `tool_args`, `toolArgs` and `Tool-Args` are one.
fn plain(key: &str) -> String {
    key.chars().filter(|sign| !['_', '-'].contains(sign)).flat_map(char::to_lowercase).collect()
}
