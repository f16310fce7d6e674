//! Workflows over real files: executions that are cancelled, interrupted and resumed, and the problems of
//! invalid files.

use std::{fs, future::ready, sync::Arc, time::Duration};

use muster_config::workflow::parse;
use muster_core::{
    backend::ToolCaller as _,
    call::{Call, CallError, Caller, Checking, Outcome, Role},
    caller_directory::{
        BrowserSession, CallerDirectory, CallerQuery, DirectoryError, DirectoryFuture,
        LoginReference, SeenLogin, TokenDescription, TokenDraft,
    },
    client::NoClient,
    credentials::{BearerToken, Principal},
    effect::Effect,
    json::raw,
    name::ToolName,
};
use muster_workflow::{
    JsonObject,
    record::{JournalEntry, JournalTime, RunRecord, RunStart, fingerprint},
    report::StepReport,
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::{
    fake::{Fake, Plan, Said, permanent, unauthorized},
    rig::{REMOTE, Rig},
};

const TWO: &str = "steps:
  - {id: first, tool: x_a_one, args: {n: 1}, store: true}
  - {id: second, tool: x_a_two, args: {was: '{{ .results.first.n }}'}}
";

fn server() -> Fake {
    let fake = Fake::default();
    fake.plan("a", [Plan::Up(vec!["one", "two"])]);
    fake.says("one", [Said::Text(r#"{"n": 1}"#)]);
    fake.says("two", [Said::Text(r#"{"done": true}"#)]);
    fake
}

/// The record of an execution, once it is in this state.
pub(crate) async fn recorded(rig: &Rig, id: &str, status: &str) -> Value {
    let long = Duration::from_secs(24 * 60 * 60);
    let found = timeout(long, async {
        loop {
            let text = rig.call("core_workflow_execution_get", json!({"execution_id": id})).await;
            let record: Value = serde_json::from_str(&text).unwrap_or_default();
            if record["status"] == status {
                return record;
            }
            sleep(Duration::from_millis(10)).await;
        }
    });
    found.await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_run_is_a_call_of_each_tool_and_a_record() {
    let fake = server();
    let rig = Rig::with(fake, &[("mcpservers/a.yaml", REMOTE), ("workflows/w.yaml", TWO)]);
    rig.until_is("a", "connected").await;
    assert_eq!(rig.tools(), ["workflow_w", "x_a_one", "x_a_two"]);
    let result = rig.ask("workflow_w", json!({"x": 1})).await;
    assert_eq!(rig.fake.called(), [r#"one {"n":1}"#, r#"two {"was":1}"#]);
    assert_eq!((&result["done"], &result["status"]), (&json!(true), &json!("completed")));
    let id = result["execution_id"].as_str().unwrap();
    let record = rig.ask("core_workflow_execution_get", json!({"execution_id": id})).await;
    assert_eq!(record["steps"][1]["input"], json!({"was": 1}));
    assert_eq!(record["result"]["execution_id"], "");
    let file: Value =
        serde_json::from_str(&rig.read(&format!("workflow_executions/{id}.yaml"))).unwrap();
    assert_eq!(file, record);
    assert!(!rig.path(&format!("workflow_executions/{id}.journal")).exists());
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_execution_leaves_a_record() {
    let fake = server();
    fake.says("two", [Said::Nothing]);
    let mut rig = Rig::with(fake, &[("mcpservers/a.yaml", REMOTE), ("workflows/w.yaml", TWO)]);
    rig.until_is("a", "connected").await;
    let call = timeout(Duration::from_secs(5), rig.call("workflow_w", json!({})));
    assert!(call.await.is_err());
    assert_eq!(rig.fake.called().len(), 2);
    rig.again().await;
    let list = rig.ask("core_workflow_execution_list", json!({})).await;
    assert_eq!((&list["total"], &list["executions"][0]["status"]), (&json!(1), &json!("failed")));
    assert_eq!(
        list["executions"][0]["error"],
        "cancelled: the caller went away while step second ran; it is not known whether it was carried out"
    );
    let id = &list["executions"][0]["execution_id"];
    let record = rig.ask("core_workflow_execution_get", json!({"execution_id": id})).await;
    let steps: Vec<&Value> =
        record["steps"].as_array().unwrap().iter().map(|step| &step["status"]).collect();
    assert_eq!(steps, ["completed", "interrupted"]);
}

/// The journal of an execution whose first step ended and whose second one started.
fn journal(file: &str, subject: &str) -> String {
    let spec = parse(file, "w").unwrap().value.spec;
    let at = JournalTime { text: "2099-01-01T00:00:00Z".to_owned(), ms: 0 };
    let record = RunRecord::begun("left".to_owned(), "w".to_owned(), JsonObject::new(), &at);
    let definition = fingerprint(&spec);
    let subject = subject.to_owned();
    let opened = RunStart {
        record,
        subject,
        token: None,
        login: None,
        toolset: None,
        shared: false,
        operator: false,
        depth: 0,
        most_effect: None,
        definition,
    };
    let report: StepReport =
        serde_json::from_value(json!({"id": "first", "tool": "x_a_one", "status": "completed"}))
            .unwrap();
    let begins = |step: &str| JournalEntry::Begins {
        at: at.clone(),
        step: step.to_owned(),
        tool: "t".to_owned(),
    };
    let lines = [
        JournalEntry::Opened { at: at.clone(), opened: Box::new(opened) },
        begins("first"),
        JournalEntry::Ended { at: at.clone(), report: Box::new(report), value: json!({"n": 7}) },
        begins("second"),
    ];
    lines.iter().map(|line| serde_json::to_string(line).unwrap() + "\n").collect()
}

#[tokio::test(start_paused = true)]
async fn idempotent_runs_resume_after_a_crash() {
    let file = TWO.replace("x_a_two,", "x_a_two, idempotent: true,");
    let files = [
        ("mcpservers/a.yaml", REMOTE),
        ("workflows/w.yaml", file.as_str()),
        ("workflow_executions/left.journal", &journal(&file, "local")),
    ];
    let rig = Rig::with(server(), &files);
    let record = recorded(&rig, "left", "completed").await;
    // The first step is not repeated, and the second one sees its result.
    assert_eq!(rig.fake.called(), [r#"two {"was":7}"#]);
    assert_eq!(record["result"]["done"], true);
    assert_eq!(record["steps"].as_array().unwrap().len(), 2);
    assert!(!rig.path("workflow_executions/left.journal").exists());
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_is_bound_to_the_toolset_of_its_caller() {
    let file = TWO.replace("x_a_two,", "x_a_two, idempotent: true,");
    let bound = journal(&file, "local").replace(r#""depth":0"#, r#""depth":0,"toolset":"first""#);
    assert!(bound.contains("toolset"), "{bound}");
    let files = [
        ("mcpservers/a.yaml", REMOTE),
        ("workflows/w.yaml", file.as_str()),
        ("toolsets/first.yaml", "tools: [x_a_one, workflow_w]\n"),
        ("workflow_executions/left.journal", &bound),
    ];
    let rig = Rig::with(server(), &files);
    recorded(&rig, "left", "failed").await;
    assert_eq!(rig.fake.called(), Vec::<String>::new());
}

/// The static tokens of a gateway, and its one user who is logged in.
#[derive(Debug, Default)]
struct Admitted {
    tokens: Vec<TokenDescription>,
    login: Option<Caller>,
}

fn token_caller(name: &str) -> Caller {
    let principal = Principal {
        id: format!("token|{name}").into(),
        issuer: "token".into(),
        subject: name.into(),
        email: None,
        name: None,
        groups: Arc::default(),
        login: name.into(),
        identity: None,
        client: None,
    };
    let token = Some(name.into());
    Caller { token, role: Role::Operator, ..Caller::authenticated(Arc::new(principal)) }
}

impl CallerDirectory for Admitted {
    fn caller(&self, query: &CallerQuery) -> Result<Caller, DirectoryError> {
        let caller = token_caller(query.token.as_deref().unwrap());
        Ok(Caller { toolset: query.toolset.as_deref().map(Into::into), ..caller })
    }

    fn tokens(&self) -> Result<Vec<TokenDescription>, DirectoryError> {
        Ok(self.tokens.clone())
    }

    fn create_token(&self, _: TokenDraft) -> DirectoryFuture<'_, BearerToken> {
        Box::pin(ready(Err(DirectoryError::Failed("not here".to_owned()))))
    }

    fn revoke_token<'a>(&'a self, _: &'a str) -> DirectoryFuture<'a, ()> {
        Box::pin(ready(Err(DirectoryError::Failed("not here".to_owned()))))
    }

    fn login_of(&self, caller: &Caller) -> Option<LoginReference> {
        let principal = caller.principal.as_ref()?;
        let client = principal.client.as_ref()?.to_string();
        Some(LoginReference { session: principal.login.to_string(), client })
    }

    fn logged_in<'a>(
        &'a self,
        login: &'a LoginReference,
        toolset: Option<&'a str>,
    ) -> DirectoryFuture<'a, Option<Caller>> {
        let known =
            self.login.as_ref().filter(|known| self.login_of(known).as_ref() == Some(login));
        let caller =
            known.map(|known| Caller { toolset: toolset.map(Into::into), ..known.clone() });
        Box::pin(ready(Ok(caller)))
    }

    fn logins(&self) -> DirectoryFuture<'_, Vec<SeenLogin>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn browsers(&self) -> DirectoryFuture<'_, Vec<BrowserSession>> {
        Box::pin(ready(Ok(Vec::new())))
    }

    fn end_session<'a>(&'a self, _: &'a str) -> DirectoryFuture<'a, ()> {
        Box::pin(ready(Ok(())))
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_token_resumes_while_the_token_is_good() {
    let file = TWO.replace("x_a_two,", "x_a_two, idempotent: true,");
    let left = journal(&file, "token|ci").replace(r#""depth":0"#, r#""depth":0,"token":"ci""#);
    let token = TokenDescription {
        name: "ci".to_owned(),
        created: 0,
        expires: None,
        is_expired: false,
        last_used: None,
        toolset: None,
        role: Role::Agent,
    };
    let expired = TokenDescription { is_expired: true, ..token.clone() };
    let recreated = TokenDescription { created: 1 << 40, ..token.clone() };
    let cases = [
        (vec![token], "completed"),
        (vec![], "interrupted"),
        (vec![expired], "interrupted"),
        (vec![recreated], "interrupted"),
    ];
    for (tokens, status) in cases {
        let files = [
            ("mcpservers/a.yaml", REMOTE),
            ("workflows/w.yaml", file.as_str()),
            ("workflow_executions/left.journal", &left),
        ];
        let directory = Arc::new(Admitted { tokens: tokens.clone(), ..Admitted::default() });
        let rig = Rig::admitting(directory, server(), &files);
        recorded(&rig, "left", status).await;
        let calls = rig.fake.called();
        assert_eq!(calls.len(), usize::from(status == "completed"), "{tokens:?}: {calls:?}");
    }
}

/// A user with a login that the gateway issued to a client.
fn user(name: &str, login: &str) -> Caller {
    let principal = Principal {
        id: Principal::id_of("https://idp", name),
        issuer: "https://idp".into(),
        subject: name.into(),
        email: None,
        name: None,
        groups: Arc::default(),
        login: login.into(),
        identity: None,
        client: Some("app".into()),
    };
    Caller::authenticated(Arc::new(principal))
}

#[tokio::test(start_paused = true)]
async fn a_run_of_a_user_resumes_while_the_login_lasts() {
    let file = TWO.replace("x_a_two,", "x_a_two, idempotent: true,");
    let login = r#""depth":0,"login":{"session":"s1","client":"app"}"#;
    let left = journal(&file, "https://idp|ann").replace(r#""depth":0"#, login);
    let bound = left.replace(r#""depth":0"#, r#""depth":0,"toolset":"first""#);
    let ended = "interrupted: the gateway ended while step second ran; it is not known whether it was carried out; it was \
                 not continued, because the login or the token that it was started with is not valid any more";
    let cases = [
        (&left, Some(user("ann", "s1")), "completed", Value::Null),
        // The login has ended; it is another one; it is the login of another user.
        (&left, None, "interrupted", json!(ended)),
        (&left, Some(user("ann", "s2")), "interrupted", json!(ended)),
        (&left, Some(user("eve", "s1")), "interrupted", json!(ended)),
    ];
    for (left, login, status, error) in cases {
        let files = [
            ("mcpservers/a.yaml", REMOTE),
            ("workflows/w.yaml", file.as_str()),
            ("workflow_executions/left.journal", left),
        ];
        let directory = Arc::new(Admitted { login: login.clone(), ..Admitted::default() });
        let rig = Rig::admitting(directory, server(), &files);
        let record = recorded(&rig, "left", status).await;
        assert_eq!(record["error"], error, "{login:?}");
        let calls = rig.fake.called();
        assert_eq!(calls.len(), usize::from(status == "completed"), "{login:?}: {calls:?}");
    }
    let files = [
        ("mcpservers/a.yaml", REMOTE),
        ("workflows/w.yaml", file.as_str()),
        ("toolsets/first.yaml", "tools: [x_a_one, workflow_w]\n"),
        ("workflow_executions/left.journal", &bound),
    ];
    let directory = Admitted { login: Some(user("ann", "s1")), ..Admitted::default() };
    let rig = Rig::admitting(Arc::new(directory), server(), &files);
    let record = recorded(&rig, "left", "failed").await;
    assert_eq!(rig.fake.called(), Vec::<String>::new(), "{record}");
}

#[tokio::test(start_paused = true)]
async fn anything_else_is_interrupted_after_a_crash() {
    let idempotent = TWO.replace("x_a_two,", "x_a_two, idempotent: true,");
    let edited = idempotent.replace("n: 1", "n: 2");
    let cases = [
        // Not idempotent; another owner's; changed since.
        (TWO, journal(TWO, "local")),
        (&idempotent, journal(&idempotent, "somebody")),
        (&edited, journal(&idempotent, "local")),
    ];
    for (file, journal) in cases {
        let files = [
            ("mcpservers/a.yaml", REMOTE),
            ("workflows/w.yaml", file),
            ("workflow_executions/left.journal", journal.as_str()),
        ];
        let rig = Rig::with(server(), &files);
        let record = rig.ask("core_workflow_execution_get", json!({"execution_id": "left"})).await;
        assert_eq!(record["status"], "interrupted", "{file}");
        rig.until_is("a", "connected").await;
        assert_eq!(rig.fake.called(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn where_people_log_in_runs_are_their_own() {
    let rig = Rig::new(&[("workflows/w.yaml", "steps: [{id: a, tool: core_service_list}]\n")]);
    let person = |name: &str| {
        Caller::authenticated(Arc::new(Principal {
            id: Principal::id_of("https://idp", name),
            issuer: "https://idp".into(),
            subject: name.into(),
            email: None,
            name: None,
            groups: Arc::default(),
            login: name.into(),
            identity: None,
            client: None,
        }))
    };
    let ask = async |caller: &Caller, tool: &str, args: Value| {
        let call = Call::new(ToolName::new(tool), raw(&args), Checking::Strict);
        match rig.dispatcher.call(caller, &NoClient::shared(), call).await.unwrap() {
            Outcome::Text { text, .. } => text,
            outcome => panic!("{outcome:?}"),
        }
    };
    let (ana, ben) = (person("ana"), person("ben"));
    let run: Value = serde_json::from_str(&ask(&ana, "workflow_w", json!({})).await).unwrap();
    let id = json!({"execution_id": run["execution_id"]});
    let totals = async |caller: &Caller| {
        let list = ask(caller, "core_workflow_execution_list", json!({})).await;
        serde_json::from_str::<Value>(&list).unwrap()["total"].clone()
    };
    assert_eq!((totals(&ana).await, totals(&ben).await), (json!(1), json!(0)));
    let get = "core_workflow_execution_get";
    assert!(ask(&ana, get, id.clone()).await.contains("\"completed\""));
    assert!(ask(&ben, get, id).await.contains("not found"));
}

#[tokio::test(start_paused = true)]
async fn a_torn_record_is_set_aside() {
    let good = r#"{"execution_id":"good","workflow_name":"w","status":"completed","started_at":"2099-01-01T00:00:00Z"}"#;
    let files =
        [("workflow_executions/good.yaml", good), ("workflow_executions/torn.yaml", "{\"exec")];
    let rig = Rig::new(&files);
    let list = rig.ask("core_workflow_execution_list", json!({})).await;
    assert_eq!(
        (&list["total"], &list["executions"][0]["execution_id"]),
        (&json!(1), &json!("good"))
    );
    let names: Vec<String> = fs::read_dir(rig.path("workflow_executions"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(names.contains(&"torn.yaml.broken".to_owned()), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_no_journal_is_set_aside() {
    let rig = Rig::new(&[("workflow_executions/left.journal", "not a journal")]);
    let list = rig.ask("core_workflow_execution_list", json!({})).await;
    assert_eq!(list["total"], 0);
    assert_eq!(rig.read("workflow_executions/left.journal.broken"), "not a journal");
    assert!(!rig.path("workflow_executions/left.journal").exists());
}

#[tokio::test(start_paused = true)]
async fn problems_have_a_file_a_line_and_a_hint() {
    let file = "spec:
  args: {owner: {type: string}}
  steps:
    - id: first
      tool: x_a_oen
    - id: second
      tool: core_workflow_get
      args:
        name: '{{ .input.ownr }}'
";
    let fake = server();
    let rig = Rig::with(fake, &[("mcpservers/a.yaml", REMOTE), ("workflows/w.yaml", file)]);
    let told = |problems: &[muster_engine::store::FileProblem]| -> Vec<String> {
        let root = format!("{}/", rig.dir.path().display());
        problems.iter().map(|problem| problem.to_string().replace(&root, "")).collect()
    };
    let reference = "workflows/w.yaml:9: steps → 1 → args → name: `.input.ownr` is not among the arguments \
                     (did you mean `.input.owner`?)";
    // A tool of a server that is not connected may still appear.
    let view = rig.until(|view| !view.problems.is_empty()).await;
    assert!(told(&view.problems).contains(&reference.to_owned()), "{:?}", view.problems);
    let view = rig.until(|view| view.problems.len() == 2).await;
    assert_eq!(
        told(&view.problems),
        [
            "workflows/w.yaml:5: steps → 0 → tool: there is no tool `x_a_oen`: the workflow is not available \
             (did you mean `x_a_one`?)",
            reference,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn many_are_listed_and_only_what_changed_is_read_again() {
    let files: Vec<(String, String)> =
        (0..300).map(|n| (format!("workflows/w{n:03}.yaml"), TWO.to_owned())).collect();
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let rig = Rig::with(server(), &files);
    let before = rig.until(|view| view.workflows.len() == 300).await;
    let list = rig.ask("core_workflow_list", json!({})).await;
    assert_eq!(list["workflows"].as_array().unwrap().len(), 300);
    assert_eq!(list["workflows"][299], json!({"available": false, "name": "w299"}));
    rig.put("workflows/w007.yaml", "steps: [{id: a, tool: core_service_list}]\n");
    let after = rig.until(|view| view.workflows["w007"].spec.steps.len() == 1).await;
    let same = |name: &str| Arc::ptr_eq(&before.workflows[name], &after.workflows[name]);
    assert!(same("w006") && !same("w007"));
}

#[tokio::test(start_paused = true)]
async fn a_resumed_run_keeps_the_effect_ceiling_of_its_caller() {
    let file = TWO.replace("x_a_two,", "x_a_two, idempotent: true,");
    let bound =
        journal(&file, "local").replace(r#""depth":0"#, r#""depth":0,"most_effect":"read""#);
    let files = [
        ("mcpservers/a.yaml", REMOTE),
        ("workflows/w.yaml", file.as_str()),
        ("workflow_executions/left.journal", &bound),
    ];
    let rig = Rig::with(server(), &files);
    let record = recorded(&rig, "left", "failed").await;
    let error = record["error"].as_str().unwrap();
    assert!(error.contains("`x_a_two` is write, and the call said `read`"), "{error}");
    assert_eq!(rig.fake.called(), Vec::<String>::new());
}

/// Workflows that call others, with names that say something else.
const CHECKS: [(&str, &str); 4] = [
    ("workflows/check-disk.yaml", "steps: [{id: a, tool: x_a_get}, {id: b, tool: x_a_delete}]\n"),
    ("workflows/check-all.yaml", "steps: [{id: a, tool: workflow_check-disk}]\n"),
    ("workflows/check-later.yaml", "steps: [{id: a, tool: x_b_get}]\n"),
    ("workflows/wipe-nothing.yaml", "steps: [{id: a, tool: x_a_get}]\n"),
];

async fn checks(files: &[(&str, &str)]) -> Rig {
    let fake = Fake::default();
    fake.plan("a", [Plan::Up(vec!["get", "delete"])]);
    let rig = Rig::with(fake, &[&CHECKS[..], &[("mcpservers/a.yaml", REMOTE)], files].concat());
    rig.until_is("a", "connected").await;
    rig
}

/// Calls a tool that may only read.
async fn read(rig: &Rig, tool: &str) -> Result<Outcome, CallError> {
    let call = Call::new(ToolName::new(tool), raw(&json!({})), Checking::Strict);
    rig.dispatcher.call(&Caller::local().within(Effect::Read), &NoClient::shared(), call).await
}

#[tokio::test(start_paused = true)]
async fn the_effect_of_a_workflow_is_that_of_its_tools() {
    let rig = checks(&[]).await;
    let state = rig.dispatcher.snapshot(&Caller::local());
    for (workflow, expect) in [
        ("workflow_check-disk", Effect::Destructive),
        ("workflow_check-all", Effect::Destructive),
        ("workflow_check-later", Effect::Write),
        ("workflow_wipe-nothing", Effect::Read),
    ] {
        let entry = state.catalog.get(workflow).unwrap();
        assert_eq!(state.policy.effect(entry), expect, "{workflow}");
        let called = read(&rig, workflow).await;
        match expect {
            Effect::Read => assert!(called.is_ok(), "{called:?}"),
            _ => assert!(matches!(called, Err(CallError::ExcessiveEffect(_))), "{called:?}"),
        }
    }
    assert_eq!(rig.fake.called(), ["get {}"]);
}

#[tokio::test(start_paused = true)]
async fn a_rule_for_a_workflow_is_none_for_its_steps() {
    let policy = "default: enabled\ntools: {workflow_check-disk: {effect: read}}\n";
    let rig = checks(&[("policies/a.yaml", policy)]).await;
    let called = read(&rig, "workflow_check-disk").await;
    let Ok(Outcome::Text { text, failed: true, .. }) = called else { panic!("{called:?}") };
    assert!(text.starts_with("`x_a_delete` is destructive, and the call said `read`"), "{text}");
    assert_eq!(rig.fake.called(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_at_the_beginning_leaves_a_record() {
    let rig = Rig::with(server(), &[("mcpservers/a.yaml", REMOTE), ("workflows/w.yaml", TWO)]);
    rig.until_is("a", "connected").await;
    {
        let mut call = std::pin::pin!(rig.call("workflow_w", json!({})));
        std::future::poll_fn(|polled| {
            assert!(call.as_mut().poll(polled).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
    }
    let ended = async {
        loop {
            let list = rig.ask("core_workflow_execution_list", json!({})).await;
            match list["executions"][0]["status"].as_str() {
                Some("failed") => return list,
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
    };
    let list = timeout(Duration::from_secs(60 * 60), ended).await.unwrap();
    assert_eq!(list["total"], 1);
    assert_eq!(rig.fake.called(), Vec::<String>::new());
}

/// Servers that are down for different reasons, and a workflow that needs all of them.
async fn with_absent_servers() -> Rig {
    const STEPS: &str = "steps:
  - {id: a, tool: x_locked_open}
  - {id: b, tool: x_broken_read}
  - {id: c, tool: x_new_read}
  - {id: d, tool: x_off_read}
  - {id: e, tool: x_kube_pods, args: {cluster: lab}}
  - {id: f, tool: x_nothing}
";
    let fake = Fake::default();
    fake.plan("locked", [unauthorized()]);
    fake.plan("lab", [unauthorized()]);
    fake.plan("broken", [permanent()]);
    let files = [
        ("mcpservers/locked.yaml", REMOTE),
        ("mcpservers/broken.yaml", REMOTE),
        ("mcpservers/new.yaml", "url: http://h/mcp\napproval: pending\n"),
        ("mcpservers/off.yaml", "url: http://h/mcp\nautoStart: false\n"),
        (
            "mcpservers/lab.yaml",
            "url: http://h/mcp\nfamily: {name: kube, instanceArg: cluster}\nauth: {forwardToken: true}\n",
        ),
        ("workflows/w.yaml", STEPS),
    ];
    let rig = Rig::with(fake, &files);
    for (server, state) in [
        ("locked", "auth_required"),
        ("lab", "auth_required"),
        ("broken", "failed"),
        ("new", "awaiting_approval"),
    ] {
        rig.until_is(server, state).await;
    }
    rig
}

#[tokio::test(start_paused = true)]
async fn a_missing_tool_says_what_to_do_about_its_server() {
    let rig = with_absent_servers().await;
    let locked = r#"log in with core_auth_login {"server": "locked"}"#;
    let sso = "it uses your login at this gateway: log in to the gateway again";
    let approve = "an operator must approve it first: `muster approve mcpserver new`";
    let off = r#"to start it: core_service_start {"name": "off"}"#;
    let retry = "it is tried again at ";

    let said = rig.call("workflow_w", json!({})).await;
    let mut lines = said.lines();
    for expect in [
        "E: workflow w is not available (missing required tools)",
        "x_locked_open: server locked is unavailable (auth_required)",
        "x_broken_read: server broken is unavailable (failed: command not found)",
        "x_new_read: server new is unavailable (awaiting_approval)",
        "x_off_read: server off is unavailable (disconnected)",
        "x_kube_pods: server lab is unavailable (auth_required)",
        "and 1 more",
        &format!("hint: {locked}"),
        &format!("hint: {retry}"),
        &format!("hint: {approve}"),
        &format!("hint: {off}"),
        &format!("hint: {sso}"),
    ] {
        let line = lines.next().unwrap();
        assert!(line.starts_with(expect), "{expect}: {said}");
    }
    assert_eq!(lines.next(), None, "{said}");

    for tool in ["core_workflow_available", "core_workflow_get"] {
        let reply = rig.ask(tool, json!({"name": "w"})).await;
        assert_eq!(reply["missing_tools"].as_array().unwrap().len(), 6, "{reply}");
        let servers = reply["unavailable"].as_array().unwrap();
        let named: Vec<_> = servers.iter().map(|server| &server["server"]).collect();
        assert_eq!(named, ["locked", "broken", "new", "off", "lab"], "{reply}");
        assert_eq!(servers[0]["hint"], locked);
        assert_eq!(servers[1]["reason"], "command not found");
    }

    let steps = json!([
        {"id": "a", "tool": "x_locked_open"}, {"id": "b", "tool": "x_broken_read"},
        {"id": "c", "tool": "x_new_read"}, {"id": "d", "tool": "x_nothing"}]);
    for (tool, name) in [("core_workflow_validate", "v"), ("core_workflow_create", "c")] {
        let said = rig.call(tool, json!({"name": name, "steps": steps})).await;
        for expect in [
            "warning: steps.0.tool: `x_locked_open` cannot be called: server locked is unavailable (auth_required)",
            &format!("hint: {locked}"),
            "warning: steps.1.tool: `x_broken_read` cannot be called: server broken is unavailable (failed: command not found)",
            &format!("hint: {approve}"),
            "warning: steps.3.tool: there is no tool `x_nothing`: the workflow is not available",
            "hint: find its name with filter_tools",
        ] {
            assert!(said.contains(expect), "{expect}: {said}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_class_says_what_to_do_about_its_servers() {
    const CLASS: &str = "args: {}
serviceConfig:
  defaultName: s
  lifecycleTools: {start: {tool: x_locked_open}, stop: {tool: x_locked_close}}
";
    let fake = Fake::default();
    fake.plan("locked", [unauthorized()]);
    let files = [("mcpservers/locked.yaml", REMOTE), ("serviceclasses/c.yaml", CLASS)];
    let rig = Rig::with(fake, &files);
    rig.until_is("locked", "auth_required").await;
    for tool in ["core_serviceclass_available", "core_serviceclass_get"] {
        let reply = rig.ask(tool, json!({"name": "c"})).await;
        assert_eq!(reply["unavailable"][0]["server"], "locked", "{reply}");
        assert_eq!(reply["unavailable"].as_array().unwrap().len(), 1, "{reply}");
    }
    let said = rig.call("core_service_create", json!({"serviceClassName": "c", "name": "s"})).await;
    assert!(said.contains("(missing required tools): x_locked_open, x_locked_close\n"), "{said}");
    assert!(said.contains(r#"hint: log in with core_auth_login {"server": "locked"}"#), "{said}");
}
