//! Families of servers.

use std::sync::Arc;

use serde_json::{Value, json, value::RawValue};

use super::ServerFamily;
use crate::{
    call::{Call, CallError, Caller, Checking},
    catalog::{BackendInfo, CatalogSnapshot, CatalogSource, offer::offer},
    connect::ServerListing,
    effect::Effect,
    json::raw,
    name::{BackendName, ToolName, exposed_name},
    policy::{
        DefaultAccess, Policy, Rule,
        explain::{Decision, Explanation},
    },
};

/// A server with tools, in the family `kubernetes` with this selector.
fn server(name: &str, selector: &str, tools: &[Value]) -> CatalogSource {
    let backend = BackendName::new(name);
    let listing =
        ServerListing { tools: tools.iter().map(raw).collect(), ..ServerListing::default() };
    let offer = offer(&listing, &backend, |local| exposed_name("x", name, local));
    let info = BackendInfo {
        title: name.into(),
        description: "".into(),
        category: None,
        tags: Arc::default(),
    };
    CatalogSource::new(backend, info, offer).in_family(ServerFamily {
        name: "kubernetes".to_owned(),
        instance_arg: selector.to_owned(),
        prefix: "x".to_owned(),
    })
}

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description,
        "inputSchema": {"type": "object", "properties": {"namespace": {"type": "string"}}}})
}

fn names(catalog: &CatalogSnapshot) -> Vec<String> {
    catalog.sorted().map(|entry| entry.name.to_string()).collect()
}

/// The server and the arguments of a call, or the error.
fn called(catalog: &CatalogSnapshot, tool: &str, arguments: &Value) -> String {
    let entry = catalog.get(tool).unwrap();
    let arguments = raw(arguments);
    let arguments: &RawValue = &arguments;
    match catalog.instance(entry, arguments).unwrap() {
        Ok((own, rest)) => format!("{} {} {}", own.backend, own.local_name, rest.get()),
        Err(message) => message,
    }
}

#[test]
fn equal_tools_are_one_with_a_selector() {
    let catalog = CatalogSnapshot::default()
        .with(server("b", "cluster", &[tool("list", "Lists"), tool("only_b", "Only here")]))
        .with(server("a", "cluster", &[tool("list", "Lists"), tool("kubernetes_get", "Gets")]));
    assert_eq!(names(&catalog), ["x_kubernetes_get", "x_kubernetes_list", "x_kubernetes_only_b"]);
    let list = catalog.get("x_kubernetes_list").unwrap();
    assert_eq!(&*list.description, "Lists (available on servers: a, b)");
    let schema: Value = serde_json::from_str(list.input_schema.get()).unwrap();
    assert_eq!(schema["properties"]["cluster"]["enum"], json!(["a", "b"]));
    assert_eq!(schema["properties"]["namespace"], json!({"type": "string"}));
    assert_eq!(schema["required"], json!(["cluster"]));
    let only: Value = serde_json::from_str(
        catalog.get("x_kubernetes_only_b").unwrap().definition.as_ref().unwrap().get(),
    )
    .unwrap();
    assert_eq!(only["inputSchema"]["properties"]["cluster"]["enum"], json!(["b"]));
    let call = |arguments: Value| called(&catalog, "x_kubernetes_list", &arguments);
    assert_eq!(call(json!({"cluster": "b", "namespace": "n"})), r#"b list {"namespace":"n"}"#);
    for missing in [json!({}), json!({"cluster": ""}), json!({"cluster": 5})] {
        assert_eq!(
            call(missing),
            "tool x_kubernetes_list is provided by a family on servers a, b; the \"cluster\" parameter is \
             required"
        );
    }
    assert_eq!(
        call(json!({"cluster": "c"})),
        "tool x_kubernetes_list is not available on server \"c\" (available: a, b)"
    );
}

#[test]
fn a_family_of_one_has_the_selector_too() {
    let catalog = CatalogSnapshot::default().with(server("a", "cluster", &[tool("list", "Lists")]));
    assert_eq!(names(&catalog), ["x_kubernetes_list"]);
    assert_eq!(called(&catalog, "x_kubernetes_list", &json!({"cluster": "a"})), "a list {}");
}

#[test]
fn what_differs_stays_with_its_server() {
    let words = CatalogSnapshot::default()
        .with(server("a", "cluster", &[tool("list", "Lists"), tool("get", "Gets")]))
        .with(server("b", "cluster", &[tool("list", "Lists all"), tool("get", "Gets")]));
    assert_eq!(names(&words), ["x_a_list", "x_b_list", "x_kubernetes_get"]);
    // Without the server that differs, the others can be grouped.
    let one = words.without(&BackendName::new("b"));
    assert_eq!(names(&one), ["x_kubernetes_get", "x_kubernetes_list"]);
    let selectors = CatalogSnapshot::default()
        .with(server("a", "cluster", &[tool("list", "Lists")]))
        .with(server("b", "place", &[tool("get", "Gets")]));
    assert_eq!(names(&selectors), ["x_a_list", "x_b_get"]);
    let taken = json!({"name": "list", "description": "Lists",
        "inputSchema": {"type": "object", "properties": {"cluster": {"type": "string"}}}});
    let collision =
        CatalogSnapshot::default().with(server("a", "cluster", &[taken, tool("get", "Gets")]));
    assert_eq!(names(&collision), ["x_a_list", "x_kubernetes_get"]);
}

#[test]
fn servers_come_and_go() {
    let list = || [tool("list", "Lists")];
    let catalog = CatalogSnapshot::default()
        .with(server("a", "cluster", &list()))
        .with(server("b", "cluster", &list()))
        .with(server("c", "cluster", &list()));
    let less = catalog.with(server("b", "cluster", &[]));
    assert_eq!(
        called(&less, "x_kubernetes_list", &json!({"cluster": "b"})),
        "tool x_kubernetes_list is not available on server \"b\" (available: a, c)"
    );
    assert_eq!(called(&less, "x_kubernetes_list", &json!({"cluster": "c"})), "c list {}");
    let none =
        ["a", "b", "c"].iter().fold(less, |less, name| less.without(&BackendName::new(*name)));
    assert!(none.is_empty());
    // Snapshots are immutable: the first one still has all servers.
    assert_eq!(called(&catalog, "x_kubernetes_list", &json!({"cluster": "b"})), "b list {}");
    let hidden = catalog.showing(|source| source.backend.as_str() != "a");
    assert_eq!(
        &*hidden.get("x_kubernetes_list").unwrap().description,
        "Lists (available on servers: b, c)"
    );
}

#[test]
fn an_effect_ceiling_is_for_the_server_that_a_call_selects() {
    let mut harmless = tool("inspect_node", "Inspects");
    harmless["annotations"] = json!({"readOnlyHint": true});
    let mut harmful = tool("inspect_node", "Inspects");
    harmful["annotations"] = json!({"destructiveHint": true});
    let catalog = CatalogSnapshot::default()
        .with(server("a", "cluster", &[harmless]))
        .with(server("b", "cluster", &[harmful]));
    let caller = Caller::local().within(Effect::Read);
    let called = |cluster: &str| {
        let name = ToolName::new("x_kubernetes_inspect_node");
        let call = Call::new(name, raw(&json!({"cluster": cluster})), Checking::Strict);
        Policy::default().permit(&catalog, &caller, call)
    };
    assert_eq!(called("a").unwrap().entry().backend.as_str(), "a");
    let refused = called("b").unwrap_err();
    let CallError::ExcessiveEffect(excess) = refused else { panic!("{refused}") };
    assert_eq!((excess.effect, excess.most), (Effect::Destructive, Effect::Read));
}

#[test]
fn a_decision_is_explained_by_the_rules_of_the_server() {
    let catalog = CatalogSnapshot::default()
        .with(server("a", "cluster", &[tool("list", "Lists")]))
        .with(server("b", "cluster", &[tool("list", "Lists")]));
    let explained = |policy: &Policy, server: &str| -> Explanation {
        let arguments = raw(&json!({"cluster": server}));
        let call = Call::new(ToolName::new("x_kubernetes_list"), arguments, Checking::Strict);
        policy.explain(&catalog, &Caller::local(), call)
    };
    let rule = Rule { effect: Some(Effect::Destructive), ..Rule::default() };
    let rules = || [("b/list".to_owned(), rule.clone())].into_iter().collect();
    let policy = Policy { rules: rules(), ..Policy::default() };
    for (server, path) in [("a", "default"), ("b", "tools.b/list")] {
        let found = explained(&policy, server);
        assert_eq!(found.decision, Decision::Allowed, "{found:?}");
        assert_eq!(found.rules, [path]);
        assert_eq!(found.effect == Some(Effect::Destructive), server == "b", "{found:?}");
    }
    // The family's tool is shown, and that of one of its servers is not.
    let policy = Policy {
        default: DefaultAccess::Disabled,
        rules: [
            ("family/kubernetes/list".to_owned(), Rule::default()),
            ("b/list".to_owned(), rule),
        ]
        .into_iter()
        .collect(),
        ..Policy::default()
    };
    assert_eq!(explained(&policy, "b").decision, Decision::Allowed);
    let hidden = explained(&policy, "a");
    assert_eq!((hidden.decision, hidden.rules), (Decision::Hidden, vec!["default".to_owned()]));
}
