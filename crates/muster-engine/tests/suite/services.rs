//! The replies of tools about service classes and services, word for word.

use serde_json::{Value, json};

use crate::{
    fake::{Fake, Plan, Said},
    rig::Rig,
};

/// A class with everything, over a server `net`.
pub(crate) const CLASS: &str = "\
serviceConfig:
  lifecycleTools:
    start:
      tool: x_net_open
      args: {port: '{{ .args.port }}', who: '{{ .name }}'}
      outputs: {id: connection.id}
    stop: {tool: x_net_close, args: {id: '{{ .start.id }}'}}
  outputs: {url: 'http://{{ .start.id }}:{{ .port }}'}
args:
  port: {type: integer, required: true}
  tone: {type: string, default: low}
";

pub(crate) const SERVER: (&str, &str) = ("mcpservers/net.yaml", "url: http://net\n");

/// A gateway with the server `net` and these files.
pub(crate) async fn rig(files: &[(&str, &str)]) -> Rig {
    let fake = Fake::default();
    fake.plan("net", [Plan::Up(vec!["open", "close", "again", "look", "state"])]);
    fake.says("open", [Said::Text(r#"{"connection": {"id": "c-1"}}"#)]);
    let files: Vec<(&str, &str)> = std::iter::once(SERVER).chain(files.iter().copied()).collect();
    let rig = Rig::with(fake, &files);
    rig.until_is("net", "connected").await;
    rig
}

#[tokio::test(start_paused = true)]
async fn the_words_of_classes() {
    let rig = rig(&[]).await;
    let config = json!({"lifecycleTools": {"start": {"tool": "x_net_open"}, "stop": {"tool": "core_config_get"}}});
    let with = |more: Value| {
        let mut config = config.clone();
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"name": "web", "serviceConfig": config})
    };
    let unmarshal = "E: failed to parse request: json: cannot unmarshal";
    let table = [
        ("list", json!({}), r#"{"mode":"filesystem","serviceClasses":null,"total":0}"#.to_owned()),
        ("get", json!({"name": "web"}), "E: Failed to get ServiceClass: service class web not found".to_owned()),
        ("get", json!({}), "E: name argument is required".to_owned()),
        ("available", json!({"name": "web"}), r#"{"available":false,"name":"web"}"#.to_owned()),
        ("validate", with(json!({})), "Validation successful for ServiceClass web".to_owned()),
        ("validate", json!({"serviceConfig": config}), "E: Validation failed: name is required".to_owned()),
        ("create", json!({"name": "web"}), "E: Invalid ServiceClass definition: serviceConfig.lifecycleTools.start.tool is required".to_owned()),
        ("create", json!({"name": "web", "serviceConfig": {"lifecycleTools": {"start": {"tool": "a"}}}}), "E: Invalid ServiceClass definition: serviceConfig.lifecycleTools.stop.tool is required".to_owned()),
        ("create", json!({"name": "web", "serviceConfig": "x"}), format!("{unmarshal} string into Go struct field ServiceClassCreateRequest.serviceConfig of type api.ServiceConfig")),
        ("create", with(json!({"healthCheck": {"interval": "90s"}})), format!("{unmarshal} string into Go struct field ServiceClassCreateRequest.serviceConfig.healthCheck.interval of type time.Duration (write nanoseconds: 90000000000 for 90s)")),
        ("create", with(json!({"colour": 1})), "E: failed to parse request: json: unknown field \"colour\"".to_owned()),
        ("create", json!({"name": "web", "colour": 1}), "E: unknown args: [colour]. Allowed args: [name version description args serviceConfig]".to_owned()),
        ("create", json!({"name": "../web", "serviceConfig": config}), "E: Invalid ServiceClass definition: invalid name '../web': it must not begin with a dot".to_owned()),
        ("create", with(json!({"serviceType": "old", "timeout": {"create": 5_000_000_000_u64}})), "ServiceClass 'web' created successfully".to_owned()),
        ("create", with(json!({})), "E: ServiceClass 'web' already exists".to_owned()),
        ("available", json!({"name": "web"}), r#"{"available":true,"name":"web"}"#.to_owned()),
        ("update", json!({"name": "web", "description": "new"}), "ServiceClass 'web' updated successfully".to_owned()),
        ("update", json!({"name": "no", "description": "new"}), "E: Failed to update ServiceClass: service class no not found".to_owned()),
        ("get", json!({"name": "web"}), concat!(
            r#"{"name":"web","version":"","description":"new","serviceConfig":{"serviceType":"","defaultName":"","dependencies":null,"#,
            r#""lifecycleTools":{"start":{"tool":"x_net_open","args":null},"stop":{"tool":"core_config_get","args":null}},"#,
            r#""healthCheck":{"enabled":false,"interval":0,"failureThreshold":0,"successThreshold":0},"#,
            r#""timeout":{"create":5000000000,"delete":0,"healthCheck":0}},"#,
            r#""available":true,"createToolAvailable":true,"deleteToolAvailable":true,"requiredTools":["x_net_open","core_config_get"]}"#
        ).to_owned()),
        ("delete", json!({"name": "web"}), "ServiceClass 'web' deleted successfully".to_owned()),
        ("delete", json!({"name": "web"}), "E: Failed to delete ServiceClass: service class web not found".to_owned()),
    ];
    for (tool, args, expect) in table {
        let said = rig.call(&format!("core_serviceclass_{tool}"), args.clone()).await;
        assert_eq!(said, expect, "{tool} {args}");
    }
    let events = rig.ask("core_events", json!({"resourceName": "web", "limit": 100})).await;
    let mut reasons: Vec<&str> =
        events.as_array().unwrap().iter().map(|event| event["reason"].as_str().unwrap()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in ["Created", "Updated", "Deleted", "Validated", "ValidationFailed", "Available"] {
        let reason = format!("ServiceClass{reason}");
        assert!(reasons.contains(&&*reason), "{reason} is not among {reasons:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_words_of_services() {
    let missing = CLASS.replace("x_net_close", "x_gone_close");
    let rig =
        rig(&[("serviceclasses/web.yaml", CLASS), ("serviceclasses/half.yaml", &missing)]).await;
    let create = "E: Failed to create ServiceClass instance: ";
    let shop = |args: Value| json!({"serviceClassName": "web", "name": "shop", "args": args});
    let table = [
        ("create", json!({"name": "a"}), "E: serviceClassName is required".to_owned()),
        ("create", json!({"serviceClassName": "web"}), "E: name is required".to_owned()),
        ("create", json!({"serviceClassName": "no", "name": "a"}), format!("{create}ServiceClass no not found: service class no not found")),
        ("create", json!({"serviceClassName": "half", "name": "a"}), format!("{create}ServiceClass half is not available (missing required tools): x_gone_close")),
        ("create", shop(json!({})), format!("{create}arg validation failed: missing required argument: port")),
        ("create", shop(json!({"port": "80"})), format!("{create}arg validation failed: invalid type for argument 'port': expected integer, got string")),
        ("create", shop(json!({"port": 80, "x": 1})), format!("{create}arg validation failed: unknown argument: x")),
        ("create", json!({"serviceClassName": "web", "name": "net", "args": {"port": 1}}), format!("{create}static service with name net already exists")),
        ("create", json!({"serviceClassName": "web", "name": "a/b", "args": {"port": 1}}), format!("{create}invalid create request: invalid name 'a/b': it must not hold `/` or `\\`")),
        ("status", json!({"name": "shop"}), "E: Failed to get service status: service shop not found".to_owned()),
        ("get", json!({"name": "shop"}), "E: Failed to get service: service 'shop' not found".to_owned()),
        ("start", json!({"name": "shop"}), "E: Failed to start service: service shop not found".to_owned()),
        ("stop", json!({"name": "shop"}), "E: Failed to stop service: service shop not found".to_owned()),
        ("restart", json!({"name": "shop"}), "E: Failed to restart service: service shop not found".to_owned()),
        ("delete", json!({"name": "net"}), "E: Failed to delete ServiceClass instance: service 'net' not found or cannot be deleted (static services cannot be deleted)".to_owned()),
        ("validate", json!({"name": "shop", "serviceClassName": "web"}), "Validation successful for service shop".to_owned()),
        ("validate", json!({"name": "shop", "serviceClassName": "half"}), "E: Validation failed: ServiceClass 'half' is not available".to_owned()),
        ("validate", json!({"name": "shop", "colour": "red"}), "E: unknown args: [colour]. Allowed args: [name serviceClassName args autoStart description]".to_owned()),
    ];
    for (tool, args, expect) in table {
        let said = rig.call(&format!("core_service_{tool}"), args.clone()).await;
        assert_eq!(said, expect, "{tool} {args}");
    }
    assert!(rig.fake.called().is_empty(), "nothing ran");

    let mut made = rig.ask("core_service_create", shop(json!({"port": 8080}))).await;
    let made_at = made["createdAt"].take();
    assert_eq!(made_at.as_str().unwrap().len(), 20);
    made["updatedAt"].take();
    assert_eq!(
        made,
        json!({
            "name": "shop", "serviceClassName": "web", "serviceClassType": "serviceclass",
            "args": {"port": 8080, "tone": "low"}, "enabled": false, "state": "running",
            "health": "healthy", "serviceData": {"id": "c-1"},
            "outputs": {"url": "http://c-1:8080"}, "createdAt": null, "updatedAt": null,
        })
    );
    assert_eq!(rig.fake.called(), [r#"open {"port":"8080","who":"shop"}"#]);
    assert_eq!(
        rig.call("core_service_create", shop(json!({"port": 1}))).await,
        format!("{create}service with name shop already exists")
    );
    let status = rig.ask("core_service_status", json!({"name": "shop"})).await;
    assert_eq!(
        status,
        json!({"name": "shop", "service_type": "generic", "state": "running", "health": "healthy",
            "metadata": {"id": "c-1"}, "outputs": {"url": "http://c-1:8080"}})
    );
    let got = rig.ask("core_service_get", json!({"name": "shop"})).await;
    assert_eq!(got["serviceClassType"], "generic");
    let all = rig.ask("core_service_list", json!({})).await;
    assert_eq!(all["total"], 3);
    rig.call("core_serviceclass_delete", json!({"name": "web"})).await;
    let status = rig.ask("core_service_status", json!({"name": "shop"})).await;
    assert_eq!((&status["service_type"], &status["state"]), (&json!("unknown"), &json!("running")));
    let said = rig.call("core_service_delete", json!({"name": "shop"})).await;
    assert_eq!(said, "Successfully deleted ServiceClass instance 'shop'");
    assert_eq!(rig.fake.called(), [r#"close {"id":"c-1"}"#], "it is stopped as its class was");
}

#[tokio::test(start_paused = true)]
async fn events_can_be_followed() {
    use std::sync::{Arc, Mutex};

    use muster_core::{
        backend::{BoxFuture, ToolCaller as _},
        call::{Call, Caller, Checking, Outcome},
        client::{ClientHandle, InputError, InputMode, InputRequest, Notification},
        json::{Raw, raw},
        name::ToolName,
    };

    #[derive(Debug, Default)]
    struct Listener(Mutex<Vec<String>>);

    impl ClientHandle for Listener {
        fn capabilities(&self) -> Raw {
            raw(&json!({}))
        }

        fn input_mode(&self) -> InputMode {
            InputMode::Unsupported
        }

        fn notify(&self, notice: Notification) {
            let params: Value = serde_json::from_str(notice.params.get()).unwrap();
            let what = params.get("reason").or_else(|| params.get("events")).unwrap();
            self.0.lock().unwrap().push(format!("{} {what}", notice.method));
        }

        fn request_input(&self, _: InputRequest) -> BoxFuture<'_, Result<Raw, InputError>> {
            Box::pin(std::future::ready(Err(InputError::Disconnected)))
        }
    }

    let rig = rig(&[("serviceclasses/web.yaml", CLASS)]).await;
    let listener = Arc::new(Listener::default());
    let client: Arc<dyn ClientHandle> = listener.clone();
    let args = json!({"follow": true, "resourceName": "b", "limit": 2, "duration": "10m"});
    let call = Call::new(ToolName::new("core_events"), raw(&args), Checking::Strict);
    let caller = Caller::local();
    let following = rig.dispatcher.call(&caller, &client, call);
    let doing = async {
        let server = json!({"name": "b", "type": "sse", "url": "u"});
        rig.call("core_mcpserver_create", server).await;
        rig.call("core_mcpserver_create", json!({"name": "c", "type": "sse", "url": "u"})).await;
        rig.call("core_mcpserver_delete", json!({"name": "b"})).await;
    };
    let (said, ()) = tokio::join!(following, doing);
    let Outcome::Text { text, .. } = said.unwrap() else { panic!("no text") };
    let events: Vec<Value> = serde_json::from_str(&text).unwrap();
    let reasons: Vec<&str> = events.iter().map(|event| event["reason"].as_str().unwrap()).collect();
    assert_eq!(reasons, ["MCPServerDeleted", "MCPServerCreated"], "newest first");
    let told = listener.0.lock().unwrap().clone();
    let method = "notifications/muster/event";
    let wanted = [
        format!("{method}s []"),
        format!("{method} \"MCPServerCreated\""),
        format!("{method} \"MCPServerDeleted\""),
    ];
    assert_eq!(told, wanted);
    let said = rig.call("core_events", json!({"follow": true, "duration": "soon"})).await;
    assert_eq!(said, "E: Invalid 'duration' format: 'soon'; write it like 30s or 5m");
}
