//! Classes read and written.

use expect_test::expect;

use super::{parse, text};

const LONG: &str = "\
apiVersion: muster.giantswarm.io/v1alpha1
kind: ServiceClass
metadata:
  name: web
  labels: {team: a}
spec:
  description: A port-forward
  args:
    port: {type: integer, required: true, default: 80, description: local port}
  serviceConfig:
    serviceType: ignored
    defaultName: web-{{ .name }}
    dependencies: [db]
    lifecycleTools:
      start:
        tool: x_net_forward
        args: {port: '{{ .port }}', deep: {a: [1, true, null]}}
        outputs: {session: connection.id}
      stop: {tool: x_net_close}
      restart: {tool: x_net_again}
      status: {tool: x_net_status}
      healthCheck:
        tool: x_net_check
        expect: {success: true, jsonPath: {status: up}}
        expectNot: {jsonPath: {status: down}}
    healthCheck: {enabled: true, interval: 1m30s, failureThreshold: 2}
    timeout: {create: 45s, delete: 500ms}
    outputs: {url: 'http://localhost:{{ .port }}', number: 5}
";

#[test]
fn everything_is_read_and_written_back() {
    let loaded = parse(LONG, "file").unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let class = loaded.value;
    let written = text(&class, Some(LONG));
    assert_eq!(parse(&written, "x").unwrap().value, class);
    expect![[r#"
        apiVersion: muster.giantswarm.io/v1alpha1
        kind: ServiceClass
        metadata:
          name: web
          namespace: default
          labels:
            team: a
        spec:
          description: A port-forward
          args:
            port:
              type: integer
              required: true
              default: 80
              description: local port
          serviceConfig:
            defaultName: "web-{{ .name }}"
            dependencies:
              - db
            lifecycleTools:
              start:
                tool: x_net_forward
                args:
                  port: "{{ .port }}"
                  deep:
                    a:
                      - 1
                      - true
                      - null
                outputs:
                  session: connection.id
              stop:
                tool: x_net_close
              restart:
                tool: x_net_again
              healthCheck:
                tool: x_net_check
                expect:
                  success: true
                  jsonPath:
                    status: up
                expectNot:
                  jsonPath:
                    status: down
              status:
                tool: x_net_status
            healthCheck:
              enabled: true
              interval: 1m30s
              failureThreshold: 2
            timeout:
              create: 45s
              delete: 500ms
            outputs:
              url: "http://localhost:{{ .port }}"
              number: "5"
    "#]]
    .assert_eq(&written);
    let config = &class.spec.service_config;
    assert_eq!(config.health_check.pause().as_secs(), 90);
    assert_eq!(config.health_check.successes(), 1);
    assert_eq!(config.timeout.start().as_secs(), 45);
    assert_eq!(config.timeout.check().as_secs(), 10);
    let tools = ["x_net_forward", "x_net_close", "x_net_again", "x_net_check", "x_net_status"];
    assert_eq!(class.spec.required_tools(), tools);
}

#[test]
fn the_short_form_and_the_other_spelling() {
    let file = "\
serviceConfig:
  lifecycleTools:
    start: {tool: a}
    stop: {tool: a}
    healthCheck: {tool: b, expect_not: {json_path: {x: 1}}}
";
    let class = parse(file, "by-file").unwrap().value;
    assert_eq!(class.name, "by-file");
    let tools = &class.spec.service_config.lifecycle_tools;
    let not = tools.health_check.as_ref().unwrap().expect_not.as_ref().unwrap();
    assert_eq!(not.json_path["x"], 1);
    assert_eq!(class.spec.required_tools(), ["a", "b"]);
}

#[test]
fn what_is_wrong_has_a_place() {
    let check = |file: &str, expect: &str| {
        assert_eq!(parse(file, "f").unwrap_err().to_string(), expect, "{file}");
    };
    check(
        "kind: Workflow\nspec: {}\n",
        "kind: Input should be 'ServiceClass'; spec → serviceConfig: Field required",
    );
    check("serviceConfg: {}\n", "serviceConfig: Field required");
    check("spec: {serviceConfig: {}}\n", "serviceConfig.lifecycleTools.start.tool is required");
    let tools = "lifecycleTools: {start: {tool: a}";
    check(
        &format!("serviceConfig: {{{tools}}}}}\n"),
        "serviceConfig.lifecycleTools.stop.tool is required",
    );
    check(
        &format!("serviceConfig: {{{tools}, stop: {{tool: a}}}}, timeout: {{create: soon}}}}\n"),
        "serviceConfig → timeout → create: Input should be a valid duration",
    );
    check(
        &format!(
            "metadata: {{name: a/b}}\nspec: {{serviceConfig: {{{tools}, stop: {{tool: a}}}}}}}}\n"
        ),
        "invalid name 'a/b': it must not hold `/` or `\\`",
    );
    let loaded = parse(&format!("serviceConfig: {{{tools}, stop: {{tool: a, arg: 1}}}}}}\n"), "f");
    let warnings = loaded.unwrap().warnings;
    assert_eq!(
        warnings.first().unwrap().to_string(),
        "serviceConfig → lifecycleTools → stop → arg: unknown field; did you mean `args`?"
    );
}
