//! Who may do what: the pages, commands and tools of policies, tokens and sessions.

use serde_json::{Value, json};

use super::{
    console::{Browser, muster, muster_code},
    serve::Gateway,
};

const CLI: &str = "\
name: demo
command: printf
tools:
  - {name: show, description: Prints a word, command: '%s', args: [{name: word, positional: true, required: true}]}
  - {name: erase, description: Erases a word, command: 'x%s', args: [{name: word, positional: true}]}
";
const POLICY: &str = "\
default: disabled
tools:
  show: {args: {word: {pattern: '[^!]+'}}}
callers:
  - users: ['*@ops.example.com']
    tools: {erase: {}}
  - tokens: [ci]
    toolset: printing
";
const TOOLSET: &str = "tools: [cli_show]\neffect: write\n";

fn gateway() -> Gateway {
    let files = [
        ("clis/demo.yaml", CLI),
        ("policies/main.yaml", POLICY),
        ("toolsets/printing.yaml", TOOLSET),
    ];
    Gateway::start_private(&files, &[])
}

fn page_json(browser: &Browser<'_>, path: &str) -> Value {
    let (status, _, text) = browser.get(path, "\r\naccept: application/json");
    assert_eq!(status, 200, "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

#[test]
fn the_policy_says_which_rule_decides() {
    let gateway = gateway();
    let operator = Browser::logged_in(&gateway);
    for (query, allowed, decision, rules) in [
        (
            "tool=cli_show&arguments=%7B%22word%22%3A%22a%22%7D",
            true,
            "allowed",
            json!(["tools.show"]),
        ),
        (
            "tool=cli_show&arguments=%7B%22word%22%3A%22a!%22%7D",
            false,
            "limited",
            json!(["tools.show"]),
        ),
        ("tool=cli_show", false, "invalid_arguments", json!(["tools.show"])),
        ("tool=cli_erase", false, "hidden", json!(["default"])),
        (
            "tool=cli_erase&user=ann%40ops.example.com",
            true,
            "allowed",
            json!(["callers[0].tools.erase"]),
        ),
        ("tool=cli_erase&user=bob%40example.com", false, "hidden", json!(["default"])),
        (
            "tool=cli_erase&user=ann%40ops.example.com&toolset=printing",
            false,
            "hidden",
            json!(["toolsets.printing"]),
        ),
        ("tool=core_token_create", false, "hidden", json!(["operators"])),
        ("tool=core_token_create&operator=1", true, "allowed", json!(["operator"])),
        ("tool=cli_shw", false, "unknown_tool", json!([])),
    ] {
        let view = page_json(&operator, &format!("/console/policies?{query}"));
        let answer = &view["answer"];
        assert_eq!(
            (&answer["allowed"], &answer["decision"], &answer["rules"]),
            (&json!(allowed), &json!(decision), &rules),
            "{query}: {answer}"
        );
        let (_, _, page) = operator.get(&format!("/console/policies?{query}"), "");
        assert!(page.contains("<code>muster policy check "), "{page}");
    }
    let view = page_json(&operator, "/console/policies?tool=cli_show&token=none");
    assert_eq!(view["answer"], Value::Null);
    let (_, _, page) = operator.get("/console/policies?tool=cli_show&token=none", "");
    assert!(page.contains("there is no token named <code>none</code>"), "{page}");

    // The command gives the same answer, by its exit code, too.
    let words = ["policy", "check", "cli_erase", "--user", "ann@ops.example.com"];
    let (worked, said) = muster(&gateway, &words);
    assert!(
        worked && said.starts_with("yes: ") && said.contains("callers[0].tools.erase"),
        "{said}"
    );
    let check = |words: &[&str]| muster_code(&gateway, &[&["policy", "check"], words].concat());
    let (code, said) = check(&["cli_erase"]);
    assert_eq!(code, Some(6), "{said}");
    assert!(said.starts_with("no: no rule names the tool"), "{said}");
    let (code, said) = check(&["cli_show", "--token", "none"]);
    assert_eq!(code, Some(1), "a question without an answer is not answered with no: {said}");
    let (worked, said) = muster(&gateway, &["policy", "show"]);
    assert!(
        worked && said.contains("user *@ops.example.com") && said.contains("printing"),
        "{said}"
    );
}

#[test]
fn a_token_is_shown_once_and_ends_when_it_is_revoked() {
    let gateway = gateway();
    let operator = Browser::logged_in(&gateway);
    let fields = [("name", "ci"), ("expires", "12h"), ("toolset", "printing")];
    let (status, head, page) =
        operator.submit("/console/people", "/console/people/tokens", &fields);
    assert_eq!(status, 200, "{page}");
    assert!(head.to_lowercase().contains("cache-control: no-store"), "{head}");
    let at = page.find("mst_").unwrap_or_else(|| panic!("{page}"));
    let token = page.get(at..at + 47).unwrap().to_owned();
    let (_, _, later) = operator.get("/console/people", "");
    assert!(later.contains("<b>ci</b>") && !later.contains("mst_"), "{later}");
    let view = page_json(&operator, "/console/people");
    assert_eq!(
        (&view["tokens"][0]["name"], &view["tokens"][0]["role"], &view["tokens"][0]["toolset"]),
        (&json!("ci"), &json!("agent"), &json!("printing"))
    );
    assert_eq!(view["sessions"]["browsers"].as_array().unwrap().len(), 1, "{view}");

    // The token is good for what its toolset has, and for no page.
    let bearer = format!("\r\nauthorization: Bearer {token}");
    let (status, _, text) = Browser::new(&gateway).get("/console/people", &bearer);
    assert_eq!(status, 403, "{text}");
    let view = page_json(
        &operator,
        "/console/policies?tool=cli_show&token=ci&arguments=%7B%22word%22%3A%22a%22%7D",
    );
    assert_eq!(
        (&view["answer"]["allowed"], &view["answer"]["caller"], &view["answer"]["entries"]),
        (&json!(true), &json!("token ci"), &json!(["callers[1]"]))
    );

    let (status, _, page) = operator.submit("/console/people", "/console/people/tokens", &fields);
    assert!(
        status == 422 && page.contains("there is a token named <code>ci</code> already"),
        "{page}"
    );
    let (status, head, _) =
        operator.submit("/console/people", "/console/people/tokens/ci/revoke", &[]);
    assert!(status == 303 && head.contains("did=revoked"), "{head}");
    let (status, _, _) = Browser::new(&gateway).get("/console/people", &bearer);
    assert_eq!(status, 401);
}

#[test]
fn ending_the_session_of_a_browser_logs_it_out() {
    let gateway = gateway();
    let other = Browser::logged_in(&gateway);
    let ids = |browser: &Browser<'_>| -> Vec<String> {
        let view = page_json(browser, "/console/people");
        let browsers = view["sessions"]["browsers"].as_array().unwrap();
        browsers.iter().map(|each| each["id"].as_str().unwrap().to_owned()).collect()
    };
    let first = ids(&other);
    assert_eq!(first.len(), 1);
    let one = Browser::logged_in(&gateway);
    assert_eq!(ids(&one).len(), 2);

    let end = |id: &str| {
        let path = format!("/console/people/sessions/{id}/end");
        let (status, _, _) = one.submit("/console/people", &path, &[]);
        assert_eq!(status, 303);
    };
    end(&first[0]);
    assert_eq!((one.get("/console", "").0, other.get("/console", "").0), (200, 403));
    let own = ids(&one);
    assert_eq!(own.len(), 1);
    end(&own[0]);
    assert_eq!(one.get("/console", "").0, 403);
}

#[test]
fn recorded_calls_become_a_workflow() {
    let files = [
        ("clis/demo.yaml", CLI),
        (
            "config.yaml",
            "aggregator: {port: 0}\nclis: {bundled: none}\nhistory: {arguments: redacted}\n",
        ),
    ];
    let gateway = Gateway::start_private(&files, &[]);
    let operator = Browser::logged_in(&gateway);
    let path = "/console/tools/cli_show";
    operator.submit(path, path, &[("arg.word", "plan")]);
    let id = loop {
        let calls = page_json(&operator, "/console/calls");
        if let Some(call) = calls["calls"].as_array().unwrap().first() {
            break call["id"].as_u64().unwrap();
        }
    };
    let draft = page_json(&operator, &format!("/console/workflows/-/new?call={id}"));
    let (_, _, page) = operator.get(&format!("/console/workflows/-/new?call={id}"), "");
    let command =
        format!("muster call core_calls_draft --json &#39;{{&quot;calls&quot;:[{id}]}}&#39;");
    assert!(page.contains(&command), "{page}");
    assert_eq!(
        draft["steps"],
        json!([{"id": "cli_show", "tool": "cli_show", "args": {"word": "plan"}}])
    );
    let steps = draft["steps"].to_string();
    let fields = [("name", "again"), ("description", "Prints again"), ("steps", steps.as_str())];
    let (status, head, page) =
        operator.submit("/console/workflows/-/new", "/console/workflows/-/new", &fields);
    assert!(status == 303 && head.contains("/console/workflows/again?did=created"), "{page}");
    let saved = page_json(&operator, "/console/workflows/again");
    assert_eq!(saved["workflow"]["steps"][0]["tool"], "cli_show");
    let (status, _, page) = operator.submit(
        "/console/workflows/-/new",
        "/console/workflows/-/new",
        &[("name", "x"), ("steps", "{")],
    );
    assert!(status == 422 && page.contains("the steps are not a JSON list"), "{page}");

    let (worked, said) = muster(&gateway, &["calls", "--tool", "cli_show", "--draft", "third"]);
    assert!(worked && said.contains("name: third") && said.contains("word: plan"), "{said}");
}

#[test]
fn servers_of_another_client_are_imported() {
    let gateway = gateway();
    let operator = Browser::logged_in(&gateway);
    let import = |config: &str| {
        operator.submit(
            "/console/servers/-/import",
            "/console/servers/-/import",
            &[("config", config)],
        )
    };
    let (status, _, page) = import("{}");
    assert!(status == 422 && page.contains("there is no object <code>mcpServers</code>"), "{page}");
    let config =
        r#"{"mcpServers": {"one": {"command": "true"}, "two": {"url": "http://127.0.0.1:9/mcp"}}}"#;
    let (status, _, page) = import(config);
    assert!(status == 200 && page.contains("&#39;one&#39; created successfully"), "{page}");
    let servers = page_json(&operator, "/console/servers");
    let names: Vec<_> =
        servers["mcpServers"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, [&json!("one"), &json!("two")]);
    let (status, _, page) = import(config);
    assert!(status == 422 && page.contains("already exists"), "{page}");

    // A configuration is longer than the forms that anyone may send.
    let long = "x".repeat(200 * 1024);
    let config = json!({"mcpServers": {"three": {"command": "true", "args": [long]}}}).to_string();
    let (status, _, page) = import(&config);
    assert_eq!(status, 200, "{page}");
    let stranger = Browser::new(&gateway);
    let (status, _, _) = stranger.post("/console/servers/-/import", "", &config);
    assert_eq!(status, 413);
}
