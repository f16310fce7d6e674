//! Configurations, good and bad, and back to text.

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::{ServeTransport, Settings, parse};
use crate::LoadError;

#[track_caller]
#[expect(clippy::needless_pass_by_value, reason = "reads better in the tables")]
fn check(file: &str, expect: Expect) {
    let report = match parse(file) {
        Ok(loaded) => {
            assert_eq!(parse(&loaded.value.text()).unwrap().value, loaded.value);
            let warnings = loaded.warnings.iter();
            let warnings: String =
                warnings.map(|warning| format!("{}: {warning}\n", warning.line)).collect();
            warnings + &loaded.value.text()
        }
        Err(LoadError::Fields(problems)) => {
            problems.iter().map(|problem| format!("{}: {problem}\n", problem.line)).collect()
        }
        Err(error) => format!("{error}\n"),
    };
    expect.assert_eq(&report);
}

#[test]
fn a_partial_file_keeps_the_defaults() {
    let usual = expect![[r#"
        aggregator:
          port: 8090
          host: localhost
          transport: streamable-http
    "#]];
    check("", usual);
    check(
        "aggregator: {port: 9000}\nnamespace: tools\n",
        expect![[r#"
            namespace: tools
            aggregator:
              port: 9000
              host: localhost
              transport: streamable-http
        "#]],
    );
    let file = "aggregator:\n  musterPrefix: m\n  transport: sse\n  oauth:\n    server:\n      \
                enabled: true\n      dex: {clientSecret: s3cret}\n      \
                trustedPublicRegistrationSchemes: [cursor]\n      storage:\n        valkey: {db: 2}\n";
    check(
        file,
        expect![[r#"
        aggregator:
          port: 8090
          host: localhost
          transport: sse
          musterPrefix: m
          oauth:
            server:
              enabled: true
              dex:
                clientSecret: s3cret
              storage:
                valkey:
                  db: 2
              trustedPublicRegistrationSchemes:
                - cursor
    "#]],
    );
    let settings = parse(file).unwrap().value;
    assert_eq!(settings.aggregator.prefix(), "m");
    assert!(settings.aggregator.oauth.server.enable_cimd);
    assert_eq!(settings.aggregator.oauth.server.dex.client_secret.reveal(), "s3cret");
    assert!(!format!("{settings:?}").contains("s3cret"));
}

#[test]
fn what_is_unknown_is_warned_about_and_what_is_wrong_refused() {
    check(
        "aggregator:\n  prot: 1\n  enabled: true\nauth: {}\n",
        expect![[r#"
        2: aggregator → prot: unknown field; did you mean `port`?
        3: aggregator → enabled: unknown field
        4: auth: unknown field
        aggregator:
          port: 8090
          host: localhost
          transport: streamable-http
    "#]],
    );
    check(
        "aggregator:\n  port: 70000\n  transport: http\n  host: [a]\n",
        expect![[r#"
        2: aggregator → port: Input should be a whole number from 0 to 65535
        4: aggregator → host: Input should be a valid string
        3: aggregator → transport: Input should be 'streamable-http', 'sse' or 'stdio'
    "#]],
    );
    check(
        "access: {mode: closed}\n",
        expect![[r#"
            1: access → mode: Input should be 'private', 'token' or 'open'
        "#]],
    );
    check(
        "access: {mode: open}\n",
        expect![[r#"
            access:
              mode: open
            aggregator:
              port: 8090
              host: localhost
              transport: streamable-http
        "#]],
    );
    check(
        "aggregator: x\n",
        expect![[r#"
        1: aggregator: Input should be a valid dictionary or instance of Aggregator
    "#]],
    );
    check(
        "a: [\n",
        expect![[r#"
        line 2, column 1: while parsing a node, did not find expected node content; the `[` of line 1 is not closed
    "#]],
    );
}

#[test]
fn secrets_are_hidden_and_survive_an_update() {
    let file = "aggregator: {oauth: {server: {dex: {clientSecret: s3cret}, storage: {valkey: {url: 'redis://:s3cret@h'}}}}}";
    let settings = parse(file).unwrap().value;
    let shown = settings.view().to_string();
    assert!(shown.starts_with(r#"{"Aggregator":{"Port":8090,"Host":"localhost","#), "{shown}");
    assert!(shown.contains(r#""ClientSecret":"[REDACTED]""#), "{shown}");
    assert!(shown.contains("redis://[REDACTED]@h"), "{shown}");
    assert!(!shown.contains("s3cret"));
    let aggregator = &settings.aggregator;
    let update = aggregator.view().to_string();
    assert_eq!(aggregator.updated(&update).unwrap().value, *aggregator);
    let update = r#"{"PORT": 1, "musterprefix": "y", "oAuth": {"mcpClient": {"publicURL": "u"}}}"#;
    let loaded = aggregator.updated(update).unwrap();
    assert_eq!(loaded.warnings, []);
    let updated = loaded.value;
    assert_eq!((updated.port, updated.prefix()), (1, "y"));
    assert_eq!(updated.oauth.mcp_client.public_url, "u");
    assert_eq!(updated.oauth.server, aggregator.oauth.server);
    assert!(aggregator.updated(r#"{"port": "x"}"#).is_err());
    assert!(aggregator.updated("[]").is_err());
    assert_eq!(Settings::default().aggregator.transport, ServeTransport::StreamableHttp);
}

proptest! {
    #[test]
    fn no_text_panics(text in "[ -~\n]{0,60}|(url|status|spec|aggregator|port): [ -~\n]{0,30}") {
        drop(parse(&text));
    }
}
