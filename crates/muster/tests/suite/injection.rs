//! What an agent says reaches a program as it was said: through the wire, the checks, the launcher and
//! the kernel, no value becomes two words, a flag, or something that a shell reads.

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::json;

use super::client::{Client, Folder};

/// Every word with a NUL behind it, which no word can hold; then what stands on the input.
const SCRIPT: &str = "printf '%s\\0' \"$@\"; cat; printf '\\0'\n";

const CONFIG: &str = "\
command: sh words.sh
global_args: [{name: end, default: here}]
tools:
  - name: words
    description: Prints its words and its input
    command: begin
    args:
      - {name: flagged, flag: -f}
      - {name: joined, flag: --key=}
      - {name: bare, positional: true, allow_leading_dash: true}
      - {name: text, stdin: true}
      - {name: all, type: boolean}
";

const NASTY: &[&str] = &[
    "",
    " ",
    "  two  blanks  ",
    "\t",
    "\n",
    "\r\n",
    "a\nb",
    "\n\n",
    "'",
    "\"",
    "''",
    "\"\"",
    "'; id; '",
    "\"; id; \"",
    "\\",
    "\\\\",
    "\\'",
    "\\n",
    "a\\",
    "$HOME",
    "${HOME}",
    "$(id)",
    "$((1+1))",
    "`id`",
    "$$",
    "$",
    "${",
    "!",
    "!!",
    "!$",
    ";",
    "; id",
    ";;",
    "&",
    "&&",
    "&& id",
    "||",
    "| id",
    "|",
    ">",
    "> /tmp/x",
    ">>",
    "<",
    "<<END",
    "<(id)",
    "2>&1",
    "*",
    "?",
    "[a-z]",
    "{a,b}",
    "~",
    "~root",
    "#",
    "# comment",
    "%s",
    "%n%n",
    "%",
    "-",
    "--",
    "---",
    "-f",
    "--key=x",
    "--all",
    "--all=true",
    "-f --all",
    "--end",
    "-rf /",
    "--help",
    "=",
    "a=b",
    "=x",
    "@file",
    "@",
    "/dev/null",
    "../../etc/passwd",
    ".",
    "..",
    "(",
    ")",
    "()",
    "() { :; }; id",
    "{",
    "}",
    "[",
    "]",
    "^",
    ",",
    "+",
    "true",
    "false",
    "null",
    "None",
    "0",
    "-1",
    "1e9",
    "010",
    "NaN",
    "{\"a\": 1}",
    "[1, 2]",
    "<!-- -->",
    "&amp;",
    "%00",
    "\\0",
    "\\x00",
    "\u{1}",
    "\u{7f}",
    "\u{1b}[31mred\u{1b}[0m",
    "\u{7}",
    "\u{8}",
    "\u{a0}",
    "\u{200b}",
    "\u{202e}abc",
    "\u{2028}",
    "\u{feff}",
    "ü",
    "u\u{308}",
    "日本語",
    "👩‍👩‍👧",
    "\u{10ffff}",
    "\u{fffd}",
    "ﬁ",
    "－－all",
    "“quoted”",
    "IFS=x",
    "PATH=",
    "LD_PRELOAD=x",
    "begin",
    "here",
    "$@",
    "\"$@\"",
    "$1",
    "$0",
    "$IFS",
    "a b c d",
    "\u{1c}x\u{1f}",
];

/// Those above, long ones, and as many made up as make two hundred.
fn values() -> Vec<String> {
    let mut values: Vec<String> = NASTY.iter().map(|&value| value.to_owned()).collect();
    values.extend(["x".repeat(100_000), "; id\n".repeat(5_000), "é".repeat(40_000)]);
    let mut runner = TestRunner::deterministic();
    let strategies = ["[-$`'\";&|*\\\\(){}<>!#~= \n]{1,30}", "[^\u{0}]{1,40}"];
    for pattern in strategies.iter().cycle().take(200_usize.saturating_sub(values.len())) {
        values.push(pattern.new_tree(&mut runner).unwrap().current());
    }
    values
}

/// Calls the tool with one value everywhere, and compares each word.
#[track_caller]
fn check(client: &mut Client, how: &str, value: &str) {
    let args =
        json!({"bare": value, "joined": value, "flagged": value, "text": value, "all": false});
    let result = match how {
        "classic" => client.call("words", args),
        _ => client.climax_call("words", args),
    };
    let joined = format!("--key={value}");
    let expect = ["begin", value, "-f", value, &joined, "--end", "here", value, ""];
    let text = result["content"][0]["text"].as_str().unwrap();
    let words: Vec<&str> = text.split('\0').collect();
    assert!(words == expect, "{how}: {value:?} arrived as {words:?}");
    assert_eq!(result["isError"], false);
}

fn check_all(how: &str, options: &[&str]) {
    let folder = Folder::new(&[("words.yaml", CONFIG), ("words.sh", SCRIPT)]);
    let mut client = folder.serve(&[&["words.yaml"], options].concat());
    client.initialize();
    let values = values();
    assert_eq!(values.len(), 200);
    for value in &values {
        check(&mut client, how, value);
    }
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn two_hundred_nasty_values_arrive_as_they_were_said() {
    check_all("discovery", &[]);
}

#[test]
fn and_in_classic_mode() {
    check_all("classic", &["--classic"]);
}

#[test]
fn what_no_word_can_hold_is_refused_and_nothing_runs() {
    let folder = Folder::new(&[("words.yaml", CONFIG), ("words.sh", "touch ran\n")]);
    let mut client = folder.serve(&["words.yaml"]);
    client.initialize();
    let result = client.climax_call("words", json!({"bare": "a\0b"}));
    assert_eq!(result["content"][0]["text"], "embedded null byte");
    let result = client.climax_call("words", json!({"bare": "x".repeat(200_000)}));
    assert_eq!(result["content"][0]["text"], "[Errno 7] Argument list too long: 'sh'");
    assert_eq!(result["isError"], true);
    assert!(!folder.file("ran").exists());
}
