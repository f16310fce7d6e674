//! Whatever stands in a file, the program says what is wrong with it and goes on.

use proptest::{prelude::*, strategy::ValueTree as _, test_runner::TestRunner};

use super::client::Folder;

/// A change to a file: where in it, relative to its length, and what happens there.
#[derive(Debug, Clone)]
enum Slip {
    Cut,
    Drop(usize),
    Twice(usize),
    Insert(Vec<u8>),
    Indent,
}

fn slip() -> impl Strategy<Value = (f64, Slip)> {
    let pieces = [
        "\t",
        ": ",
        "- ",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "'",
        "|",
        ">",
        "&a ",
        "*a",
        "<<: *a",
        "!!int ",
        "---\n",
        "...\n",
        "%YAML 9.9\n",
        "? ",
        "#",
        "\n",
        "\r",
        "\u{feff}",
        "\u{85}",
        "\0",
        "~",
        "0x",
        "1:99",
        "1e999",
        ".inf",
        "2024-13-45",
        "=",
        "@",
        "`",
        "\\",
        "\"\\uD800\"",
        "\"\\x",
        "yes",
        "é",
        "name:",
        "tools:",
        "args:",
    ];
    let piece =
        proptest::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec());
    let bytes = proptest::collection::vec(any::<u8>(), 1..6);
    let what = prop_oneof![
        1 => Just(Slip::Cut),
        3 => (1..40_usize).prop_map(Slip::Drop),
        2 => (1..80_usize).prop_map(Slip::Twice),
        6 => piece.prop_map(Slip::Insert),
        2 => bytes.prop_map(Slip::Insert),
        2 => Just(Slip::Indent),
    ];
    (0.0..1.0, what)
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a place in a short file"
)]
fn apply(mut text: Vec<u8>, place: f64, slip: &Slip) -> Vec<u8> {
    let at = (text.len() as f64 * place) as usize;
    let until = |length: &usize| (at + length).min(text.len());
    match slip {
        Slip::Cut => text.truncate(at),
        Slip::Drop(length) => drop(text.drain(at..until(length))),
        Slip::Twice(length) => {
            let piece = text[at..until(length)].to_vec();
            drop(text.splice(at..at, piece));
        }
        Slip::Insert(piece) => drop(text.splice(at..at, piece.iter().copied())),
        Slip::Indent => {
            let line = text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
            drop(text.splice(line..line, *b"  "));
        }
    }
    text
}

/// Bundled configs with slips in them, pure noise, and what is known to trouble parsers.
fn files() -> Vec<Vec<u8>> {
    let mut runner = TestRunner::deterministic();
    let slips = proptest::collection::vec(slip(), 1..5);
    let configs = muster::bundled::CONFIGS.iter().cycle();
    let mut files: Vec<Vec<u8>> = configs
        .take(80)
        .map(|(_, text)| {
            let slips = slips.new_tree(&mut runner).unwrap().current();
            slips
                .iter()
                .fold(text.as_bytes().to_vec(), |text, (place, slip)| apply(text, *place, slip))
        })
        .collect();
    let noise = "((name|command|env|tags|tools|args|type|default): ?|[-\\[\\]{},:&*!|>%a1'\"\n ]|  ){0,200}";
    files.extend((0..12).map(|_| noise.new_tree(&mut runner).unwrap().current().into_bytes()));
    let bomb = (1..12).map(|level| {
        let lower = level - 1;
        format!("x-{level}: &a{level} [*a{lower}, *a{lower}, *a{lower}, *a{lower}, *a{lower}, *a{lower}]\n")
    });
    let bomb: String = std::iter::once("x-0: &a0 [x, x]\n".to_owned()).chain(bomb).collect();
    files.extend([
        Vec::new(),
        vec![0; 1000],
        vec![0xff, 0xfe, b'a', 0],
        "[".repeat(50_000).into_bytes(),
        "{a: ".repeat(50_000).into_bytes(),
        "? ".repeat(20_000).into_bytes(),
        format!("command: x\ntools: []\n{bomb}").into_bytes(),
        format!("command: x\ntools: [{{name: t, description: d, timeout: {}}}]", "9".repeat(9_999))
            .into_bytes(),
    ]);
    files
}

#[test]
fn no_file_makes_validate_fall_over() {
    let folder = Folder::new(&[]);
    let files = files();
    assert_eq!(files.len(), 100);
    let names: Vec<String> = (0..files.len()).map(|number| format!("{number}.yaml")).collect();
    for (name, bytes) in names.iter().zip(&files) {
        std::fs::write(folder.file(name), bytes).unwrap();
    }
    for batch in names.chunks(25) {
        let mut words = vec!["validate"];
        words.extend(batch.iter().map(String::as_str));
        check(&folder, &words, batch.len());
    }
    for name in names.iter().step_by(10) {
        check(&folder, &["validate", "git", "--policy", name], 2);
    }
}

/// A verdict on each file, nothing on standard error, and one of the two codes.
#[track_caller]
fn check(folder: &Folder, words: &[&str], verdicts: usize) {
    let output = folder.climax(words);
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let is_hint = |line: &str| line.starts_with("hint: ");
    assert!(stderr.lines().all(is_hint), "{words:?}: {stderr}");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{words:?}: {}", output.status);
    let told = stdout.lines().filter(|line| line.starts_with("  ✓ ") || line.starts_with("  ✗ "));
    assert_eq!(told.count(), verdicts, "{words:?}: {stdout}");
}
