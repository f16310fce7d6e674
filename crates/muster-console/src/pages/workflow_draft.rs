//! A new workflow, drafted from calls in the history or from scratch.

use http::StatusCode;
use muster_api::workflow::{DraftStep, WorkflowDraft};
use muster_core::json::RawObject;
use serde_json::{Value, json};

use crate::{
    PageContext, PageReply,
    gateway::CoreError,
    html::{Element, el},
    page::{Page, Section, crumb, form, heading},
    request::link,
    widgets::{labelled, notice},
};

pub(super) async fn page(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let calls: Vec<u64> = cx.request.queries("call").filter_map(|id| id.parse().ok()).collect();
    let draft = match calls.is_empty() {
        true => WorkflowDraft {
            steps: vec![DraftStep { id: "first".to_owned(), ..DraftStep::default() }],
            ..WorkflowDraft::default()
        },
        false => cx.gateway.reply("core_calls_draft", &json!({"calls": calls})).await?,
    };
    let command = match calls.is_empty() {
        true => "muster create workflow --help".to_owned(),
        false => {
            let arguments = json!({"calls": calls}).to_string();
            format!("muster call core_calls_draft --json {}", super::quoted(&arguments))
        }
    };
    let steps = serde_json::to_string_pretty(&draft.steps).unwrap_or_default();
    let page = Page::new(Section::Workflows, "New workflow", &draft).command(command);
    let notes = draft.notes.iter().map(|note| el("li").put(note)).collect::<Vec<_>>();
    let notes = (!draft.notes.is_empty()).then(|| {
        el("div")
            .class("notice warn")
            .put(el("strong").put("Before you save it"))
            .put(el("ul").put(notes))
    });
    Ok(page
        .put((crumb("Workflows", "workflows"), heading("New workflow")))
        .put(el("p").class("lead").put(LEAD))
        .put(notes)
        .put(fields(cx, &draft.name, &draft.description, &steps))
        .into())
}

const LEAD: &str = "A workflow is a sequence of tool calls under one name. Steps may use what was passed in \
                    ({{ .input.title }}) and what earlier steps returned ({{ .results.list }}).";

fn fields(cx: PageContext<'_>, name: &str, description: &str, steps: &str) -> Element {
    let input = |id: &'static str, label: &str, value: &str, is_required: bool| {
        let input = el("input").attr("type", "text").attr("id", id).attr("name", id);
        labelled(id, label, input.attr("value", value).flag("required", is_required))
    };
    let steps = el("textarea")
        .class("code")
        .attr("id", "steps")
        .attr("name", "steps")
        .attr("rows", "18")
        .attr("spellcheck", "false")
        .put(steps);
    let all = el("div")
        .class("fields")
        .put(input("name", "Name", name, true))
        .put(input("description", "Description", description, false))
        .put(labelled("steps", "Steps as JSON", steps));
    let form = form(&link(&["workflows", "-", "new"]), cx.form_token);
    form.put(all).put(el("button").class("primary").put("Save the workflow"))
}

pub(super) async fn create(cx: PageContext<'_>) -> Result<PageReply, CoreError> {
    let field = |name: &str| cx.request.field(name).map(str::trim).unwrap_or_default();
    let (name, description) = (field("name"), field("description"));
    let steps: Result<Vec<Value>, _> = serde_json::from_str(field("steps"));
    let created = match steps {
        Ok(steps) => {
            let mut wanted = RawObject::new();
            wanted.set_value("name", name);
            wanted.set_value("description", description);
            wanted.set_value("steps", &steps);
            let created = cx.gateway.core("core_workflow_create", &wanted).await;
            created.map(|_| ()).map_err(|error| error.text)
        }
        Err(error) => Err(format!("the steps are not a JSON list: {error}")),
    };
    match created {
        Ok(()) => Ok(PageReply::Done(format!("{}?did=created", link(&["workflows", name])))),
        Err(problem) => {
            let page = Page::new(Section::Workflows, "New workflow", &json!({"problem": problem}));
            let page = page
                .command("muster create workflow --help")
                .put((crumb("Workflows", "workflows"), heading("New workflow")))
                .put(notice("bad", &problem))
                .put(fields(cx, name, description, field("steps")));
            Ok(Page { status: StatusCode::UNPROCESSABLE_ENTITY, ..page }.into())
        }
    }
}
