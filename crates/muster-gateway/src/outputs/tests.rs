//! Tests of what is stored, for which caller and for how long, and of its excerpts.

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use muster_core::shared::SharedState;
use muster_shared::{MemoryShared, clock::Clock};

use super::{
    NewOutput, OutputBody, OutputKind, Outputs, StoredOutput,
    block::{BlockAbout, NewBlock},
    described,
    excerpt::{ExcerptRequest, NextPage},
    preview::Preview,
    shared_outputs::MAX_BYTES,
    temporary::TemporaryOutputs,
};
use crate::background_job::StopSignal;

fn outputs() -> (tempfile::TempDir, Outputs) {
    let folder = tempfile::tempdir().unwrap();
    let outputs = Outputs::at(folder.path().join("outputs"));
    (folder, outputs)
}

fn text(outputs: &Outputs, text: &str) -> StoredOutput {
    outputs
        .keep("ada", NewOutput::new(OutputKind::Text, OutputBody::Text(text.to_owned())))
        .unwrap()
}

#[test]
fn a_handle_is_good_for_its_owner_only() {
    let (_folder, outputs) = outputs();
    let kept = text(&outputs, "a\nb");
    assert_eq!((kept.bytes, kept.lines), (3, 2));
    assert_eq!(outputs.find("ada", &kept.handle).unwrap().bytes, 3);
    let others = outputs.find("bob", &kept.handle).unwrap_err().to_string();
    let never = outputs.find("bob", "out_000000000000000000000000").unwrap_err().to_string();
    assert_eq!(
        others.replace(&kept.handle, "H"),
        never.replace("out_000000000000000000000000", "H")
    );
    for strange in ["", "../x", "out_../../../../etc/passwd", "out_0"] {
        assert!(outputs.find("ada", strange).is_err());
    }
    let mode = |path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(kept.path.clone()), 0o600);
    assert_eq!(mode(kept.path.parent().unwrap().to_owned()), 0o700);
    let again = Outputs::at(outputs.directory.path().unwrap());
    assert!(again.find("ada", &kept.handle).is_ok(), "it outlives the gateway");
}

#[test]
fn temporary_outputs_are_private_and_removed_with_their_owner() {
    let owner = TemporaryOutputs::default();
    let outputs = owner.outputs();
    assert!(outputs.directory.path().is_none(), "created when first used");
    let kept = text(&outputs, "a");
    let directory = kept.path.parent().unwrap().to_owned();
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    assert!(owner.outputs().find("ada", &kept.handle).is_ok());
    drop(owner);
    assert!(!directory.exists());
    assert!(outputs.find("ada", &kept.handle).is_err());
}

#[test]
fn what_has_expired_or_is_too_much_goes() {
    let (_folder, outputs) = outputs();
    let gone = text(&outputs.clone().within(Duration::ZERO, 1 << 20), "old");
    assert!(outputs.find("ada", &gone.handle).is_err());
    let first = text(&outputs, "1234567890");
    assert!(!gone.path.exists(), "the next one removes it");
    let small = outputs.clone().within(Duration::from_secs(4000), 15);
    let second = text(&small, "1234567890");
    assert!(outputs.find("ada", &first.handle).is_err());
    assert!(outputs.find("ada", &second.handle).is_ok());
}

#[test]
fn outputs_of_an_earlier_process_are_counted_and_fragments_are_removed() {
    let (_folder, earlier) = outputs();
    let first = text(&earlier, "1234567890");
    let directory = earlier.directory.path().unwrap();
    let [old, new] = [0, 1].map(|digit| directory.join(format!("out_{digit:024}")));
    let mine = directory.join("mine");
    for file in [&old, &new, &mine] {
        fs::write(file, "half").unwrap();
    }
    for file in [&old, &mine] {
        let hours_ago = std::time::SystemTime::now() - Duration::from_secs(9_000);
        fs::File::options().write(true).open(file).unwrap().set_modified(hours_ago).unwrap();
    }
    let later = Outputs::at(&directory).within(Duration::from_secs(4000), 15);
    let second = text(&later, "1234567890");
    assert!(later.find("ada", &first.handle).is_err());
    assert!(later.find("ada", &second.handle).is_ok());
    assert!(!old.exists() && new.exists() && mine.exists());
}

#[test]
fn a_file_is_taken_over() {
    let (folder, outputs) = outputs();
    let spilled = folder.path().join("spilled");
    fs::write(&spilled, "one\ntwo\n").unwrap();
    let kept = outputs
        .keep("ada", NewOutput::new(OutputKind::Text, OutputBody::File(spilled.clone())))
        .unwrap();
    assert!(!spilled.exists());
    assert_eq!((kept.bytes, kept.lines), (8, 2));
}

#[test]
fn a_stream_is_kept_within_bounds() {
    let (_folder, outputs) = outputs();
    let stream = |text: &'static str| OutputBody::Stream(Box::new(text.as_bytes()));
    let small = outputs.clone().within(Duration::from_secs(4000), 8);
    let kept = small.keep("ada", NewOutput::new(OutputKind::Text, stream("one\ntwo\n"))).unwrap();
    assert_eq!((kept.bytes, kept.lines), (8, 2));
    assert!(outputs.find("bob", &kept.handle).is_err());
    assert!(small.keep("ada", NewOutput::new(OutputKind::Text, stream("one\ntwo\n3"))).is_err());
    let files = fs::read_dir(small.directory.path().unwrap()).unwrap().count();
    assert_eq!(files, 2, "nothing is left of what was too long");
    let gone = outputs.clone().within(Duration::ZERO, 8);
    let gone = gone.keep("ada", NewOutput::new(OutputKind::Text, stream("x"))).unwrap();
    assert!(outputs.find("ada", &gone.handle).is_err());
}

#[track_caller]
fn look(kept: &StoredOutput, look: &ExcerptRequest, budget: usize) -> (String, Option<u64>) {
    let piece = kept.look(look, budget).unwrap();
    let next = piece.next.map(|next| match next {
        NextPage::Offset(at) | NextPage::Line(at) => at,
    });
    (piece.text, next)
}

#[test]
fn pages_follow_each_other_and_nothing_is_lost() {
    let (_folder, outputs) = outputs();
    let all: String = (0..500).map(|n| format!("line {n} with größe 日本\n")).collect();
    for whole in [all.clone(), all.replace('\n', " ")] {
        let kept = text(&outputs, &whole);
        let (mut read, mut offset) = (String::new(), Some(0));
        while let Some(at) = offset {
            let (piece, next) =
                look(&kept, &ExcerptRequest { offset: Some(at), ..ExcerptRequest::default() }, 100);
            assert!(!piece.is_empty());
            read.push_str(&piece);
            offset = next;
        }
        assert_eq!(read, whole);
    }
}

#[test]
fn what_would_take_long_is_refused_or_stopped() {
    let (_folder, outputs) = outputs();
    let items: Vec<_> = (0..20_000).map(|id| serde_json::json!({ "id": id })).collect();
    let kept = text(&outputs, &serde_json::json!({ "items": items }).to_string());
    let refused = |path: &str| {
        let look = ExcerptRequest { path: Some(path.to_owned()), ..ExcerptRequest::default() };
        kept.look(&look, 1000).unwrap_err()
    };
    let said = refused("$.items[?$.items[?@.id==-1]]");
    assert_eq!(
        said,
        "this path is too expensive on 40002 values: a filter searches the whole value for every item; \
         select a part first, such as $.items[0:100], or use grep"
    );
    assert!(refused(&format!("$[?{}1==1", "(".repeat(900))).contains("nested"));
    let stop = StopSignal::default();
    let stopped = kept.stopped_by(&stop);
    let grep = ExcerptRequest { grep: Some("x".to_owned()), ..ExcerptRequest::default() };
    assert!(stopped.look(&grep, 1000).is_ok());
    stop.set();
    let path = ExcerptRequest { path: Some("$.items[0]".to_owned()), ..ExcerptRequest::default() };
    for look in [grep, path] {
        assert!(stopped.look(&look, 1000).unwrap_err().contains("took too long"));
    }
}

#[test]
fn lines_are_found() {
    let (_folder, outputs) = outputs();
    let kept = text(&outputs, "alpha\nbeta\ngamma\nbeta 2\n");
    let from_line = ExcerptRequest { line: Some(3), limit: Some(1), ..ExcerptRequest::default() };
    assert_eq!(look(&kept, &from_line, 100), ("gamma\n".to_owned(), Some(17)));
    let grep = |offset, count: bool| ExcerptRequest {
        grep: Some("^b.ta".to_owned()),
        limit: Some(1).filter(|_| !count),
        offset,
        count,
        ..ExcerptRequest::default()
    };
    assert_eq!(look(&kept, &grep(None, false), 100), ("2: beta\n".to_owned(), Some(1)));
    assert_eq!(look(&kept, &grep(Some(1), false), 100), ("4: beta 2\n".to_owned(), None));
    assert_eq!(look(&kept, &grep(None, true), 100), ("2".to_owned(), None));
    let tail = ExcerptRequest { tail: Some(2), ..ExcerptRequest::default() };
    assert_eq!(look(&kept, &tail, 100), ("gamma\nbeta 2".to_owned(), None));
    let count = ExcerptRequest { count: true, ..ExcerptRequest::default() };
    assert_eq!(look(&kept, &count, 100), ("4".to_owned(), None));
    let bad = ExcerptRequest { grep: Some("(".to_owned()), ..ExcerptRequest::default() };
    assert!(kept.look(&bad, 100).unwrap_err().starts_with("grep must be a regular expression"));
    let long = text(&outputs, &format!("{}needle{}", "x".repeat(5000), "y".repeat(5000)));
    let (found, _) = look(
        &long,
        &ExcerptRequest { grep: Some("needle".to_owned()), ..ExcerptRequest::default() },
        900,
    );
    assert!(found.contains("needle") && found.len() < 2_100, "{found}");
}

#[test]
fn parts_of_json_are_selected() {
    let (_folder, outputs) = outputs();
    let json = r#"{"items":[{"name":"a","n":1},{"name":"b","n":2}],"big":"xyz"}"#;
    let kept = outputs
        .keep("ada", NewOutput::new(OutputKind::Json, OutputBody::Text(json.to_owned())))
        .unwrap();
    let path = |path: &str, count| ExcerptRequest {
        path: Some(path.to_owned()),
        count,
        ..ExcerptRequest::default()
    };
    assert_eq!(look(&kept, &path("$.items[1]", false), 100).0, r#"{"name":"b","n":2}"#);
    assert_eq!(look(&kept, &path("$.items[*].name", false), 100).0, r#"["a","b"]"#);
    assert_eq!(look(&kept, &path("$.big", false), 100).0, "xyz");
    assert_eq!(look(&kept, &path("$.items", true), 100).0, "2");
    assert_eq!(look(&kept, &path("$.items[0].n", false), 100).0, "1");
    assert_eq!(look(&kept, &path("$.items[?@.n == 2].name", false), 100).0, "b");
    assert_eq!(look(&kept, &path("$.items[7]", false), 100).0, "[]");
    assert_eq!(look(&kept, &path("$.none.of[0].these", true), 100).0, "0");
    assert!(kept.look(&path("items[", false), 100).unwrap_err().starts_with("path must be"));
    assert!(
        text(&outputs, "plain").look(&path("$", false), 100).unwrap_err().contains("is not JSON")
    );
}

#[test]
fn a_text_in_json_that_is_too_long_to_be_read_is_paged() {
    let (_folder, outputs) = outputs();
    let text = format!("{}{}the end", "größe\n".repeat(10), "x".repeat(17 << 20));
    let json = serde_json::json!({"items": [{"blob": text}]}).to_string();
    let kept =
        outputs.keep("ada", NewOutput::new(OutputKind::Json, OutputBody::Text(json))).unwrap();
    let page = |offset| ExcerptRequest {
        path: Some("$.items[0].blob".to_owned()),
        offset: Some(offset),
        ..ExcerptRequest::default()
    };
    let (first, next) = look(&kept, &page(0), 100);
    assert!(first.starts_with("größe\ngröße\n"), "{first}");
    assert_eq!(next, Some(first.len() as u64));
    let last = look(&kept, &page(text.len() as u64 - 10), 100);
    assert_eq!(last, ("xxxthe end".to_owned(), None));
    let whole = ExcerptRequest { path: Some("$.items".to_owned()), ..ExcerptRequest::default() };
    assert!(kept.look(&whole, 100).unwrap_err().contains("go deeper"));
}

#[test]
fn previews_are_short_and_typed() {
    let (_folder, outputs) = outputs();
    let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    let preview = |kept: &StoredOutput, budget| Preview::read(kept, budget).unwrap().within(budget);
    let shown = preview(&text(&outputs, &lines), 60);
    assert!(shown.starts_with("line 0\n") && shown.trim_end().ends_with("line 999"), "{shown}");
    let cost = muster_core::token_estimate::estimate(&shown);
    assert!((45..=60).contains(&cost), "{cost}: {shown}");
    assert_eq!(preview(&text(&outputs, "a\nb"), 60), "a\nb");
    let items: Vec<String> =
        (0..100).map(|n| format!(r#"{{"id":{n},"tags":["a","b"]}}"#)).collect();
    let json = format!(r#"{{"items":[{}],"text":"{}"}}"#, items.join(","), "z".repeat(500));
    let kept = OutputBody::Text(json);
    let kept = outputs.keep("ada", NewOutput::new(OutputKind::Json, kept)).unwrap();
    let shown = preview(&kept, 200);
    assert!(shown.starts_with(r#"{"items":[{"id":0,"tags":["a","b"]},{"id":1,"#), "{shown}");
    assert!(shown.contains("100 items in all, "), "{shown}");
}

fn json(outputs: &Outputs, json: &str) -> StoredOutput {
    let body = OutputBody::Text(json.to_owned());
    outputs.keep("ada", NewOutput::new(OutputKind::Json, body)).unwrap()
}

/// A request as `get_output` reads it.
fn request(words: &str) -> ExcerptRequest {
    let mut look = ExcerptRequest::default();
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap();
        match key {
            "path" => look.path = Some(value.to_owned()),
            "grep" => look.grep = Some(value.to_owned()),
            "line" => look.line = Some(value.parse().unwrap()),
            "offset" => look.offset = Some(value.parse().unwrap()),
            "limit" => look.limit = Some(value.parse().unwrap()),
            "tail" => look.tail = Some(value.parse().unwrap()),
            "count" => look.count = value == "true",
            _ => panic!("{key}"),
        }
    }
    look
}

/// Checks the result of a request: the text, the next page and the note.
#[track_caller]
fn check(kept: &StoredOutput, words: &str, expect: &str) {
    let shown = match kept.look(&request(words), 2_000) {
        Ok(piece) => {
            let next = match piece.next {
                Some(NextPage::Offset(at)) => format!(" offset={at}"),
                Some(NextPage::Line(at)) => format!(" line={at}"),
                None => String::new(),
            };
            format!("{}({}{next})", piece.text, piece.note)
        }
        Err(problem) => format!("!{problem}"),
    };
    assert_eq!(shown, expect, "{words}");
}

#[test]
fn every_way_to_look_combines_with_a_path() {
    let (_folder, outputs) = outputs();
    let items: Vec<String> =
        (0..9).map(|n| format!(r#"{{"id":{n},"name":"n{n}","log":"a{n}\nb{n}\n"}}"#)).collect();
    let kept = json(&outputs, &format!(r#"{{"total":9,"items":[{}]}}"#, items.join(", ")));
    check(&kept, "path=$.items[*].name grep=n[78]", "8: n7\n9: n8\n(2 of 9 lines match)");
    check(&kept, "path=$.items[*].name grep=n count=true", "9(9 of 9 lines match)");
    check(&kept, "path=$.items[*].name tail=2", "n7\nn8\n(lines 8 to 9 of 9)");
    check(&kept, "path=$.items[*].name line=3 limit=1", "n2\n(lines 3 to 3 line=4)");
    check(&kept, "path=$.items[*].name grep=n tail=1", "9: n8\n(9 of 9 lines match)");
    check(&kept, "path=$.items[*].name grep=n line=9", "9: n8\n(1 of 9 lines match)");
    check(
        &kept,
        "path=$.items[*].name grep=n limit=1 offset=7",
        "8: n7\n(9 of 9 lines match offset=8)",
    );
    check(&kept, "path=$.items[?@.id==4].name grep=.", "1: n4\n(1 of 1 lines match)");
    check(&kept, "path=$.items[3].log grep=b", "2: b3\n(1 of 2 lines match)");
    check(&kept, "path=$.items[3].log line=2", "b3\n(lines 2 to 2 of 2)");
    check(&kept, "path=$.items[3].log tail=1", "b3\n(lines 2 to 2 of 2)");
    // A list is shown by its items, an object by its members.
    let item = r#"{"id":5,"name":"n5","log":"a5\nb5\n"}"#;
    check(&kept, "path=$.items grep=n5", &format!("6: {item}\n(1 of 9 lines match)"));
    check(
        &kept,
        "path=$.items tail=1 ",
        &format!("{}\n(lines 9 to 9 of 9)", item.replace('5', "8")),
    );
    check(&kept, "path=$.items[0] grep=name", "3:   \"name\": \"n0\",\n(1 of 5 lines match)");
    check(&kept, "path=$.none grep=x", "(0 of 0 lines match)");
    // Without a path, JSON without line breaks is broken into lines.
    check(&kept, "grep=total", "2:   \"total\": 9,\n(1 of 50 lines match)");
    check(&kept, "tail=2", "  ]\n}\n(lines 49 to 50 of 50)");
}

#[test]
fn what_makes_no_sense_together_is_refused() {
    let (_folder, outputs) = outputs();
    let kept = text(&outputs, "a\nb\n");
    let count = "!`count` counts everything; leave out `tail`, or leave out `count`";
    check(&kept, "count=true tail=1", count);
    check(&kept, "tail=1 limit=1", "!`tail` says how many lines; leave out `limit`");
    check(
        &kept,
        "tail=1 line=1",
        "!`tail` shows the end and `line` begins elsewhere; leave out one of them",
    );
    check(&kept, "line=1 offset=1", "!`offset` and `line` both say where to begin; leave out one");
    check(&kept, "line=9", "(there is no line 9: the output has 2 lines)");
}

#[test]
fn lists_of_any_length_are_searched() {
    let (_folder, outputs) = outputs();
    let items: Vec<String> = (0..60_000)
        .map(|n| format!(r#"{{"id":{n},"name":"user {n}","filler":"{n:>300}"}}"#))
        .collect();
    let kept = json(&outputs, &format!(r#"{{"items":[{}]}}"#, items.join(",")));
    assert!(kept.bytes > 16 << 20);
    check(
        &kept,
        r"path=$.items[*].name grep=^user\s59999$",
        "60000: user 59999\n(1 of 60000 lines match)",
    );
    check(&kept, r"path=$.items[?@.id==4].name grep=.", "1: user 4\n(1 of 1 lines match)");
    check(&kept, "path=$.items[*].id count=true", "60000(60000 lines)");
    let found = kept.look(&request(r#"path=$.items grep="id":45678,"#), 2_000).unwrap();
    assert!(found.text.starts_with(r#"45679: {"id":45678,"name":"user 45678","#), "{found:?}");
    let refused = kept.look(&request("path=$..name"), 2_000).unwrap_err();
    assert!(refused.contains("with [*]"), "{refused}");
}

#[test]
fn text_wins_for_lines_and_structure_for_paths() {
    let (_folder, outputs) = outputs();
    let about = BlockAbout {
        r#type: "image".to_owned(),
        uri: None,
        mime_type: Some("image/png".to_owned()),
        data_size: Some(4),
    };
    let block = r#"{"type":"image","mimeType":"image/png","data":"AAAA"}"#;
    let new = NewOutput {
        kind: OutputKind::Text,
        body: OutputBody::Text("one\ntwo".to_owned()),
        structure: Some(OutputBody::Text(r#"{"rows":["x","y"]}"#.to_owned())),
        blocks: vec![NewBlock { about, json: OutputBody::Text(block.to_owned()) }],
    };
    let kept = outputs.keep("ada", new).unwrap();
    let kept = outputs.find("ada", &kept.handle).unwrap();
    assert_eq!((kept.bytes, kept.lines), (7, 2));
    check(&kept, "grep=t", "2: two\n(1 of 2 lines match)");
    check(&kept, "tail=1", "two(the end of 2 lines, 7 bytes)");
    check(&kept, "line=2", "two(bytes 4 to 7 of 7)");
    check(&kept, "path=$.rows grep=y", "2: y\n(1 of 2 lines match)");
    assert_eq!(kept.block(1).unwrap().get(), block);
    assert_eq!(
        kept.block(2).unwrap_err(),
        format!("`{}` has one block; pass block: 1", kept.handle)
    );
}

#[test]
fn what_cannot_be_kept_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("outputs");
    fs::write(&place, "a file in the way").unwrap();
    let new = || NewOutput::new(OutputKind::Text, OutputBody::Text("x".to_owned()));
    let said = Outputs::at(&place).keep("ada", new()).unwrap_err().to_string();
    let fix = format!("make {} a writable directory or ask for less", place.display());
    assert!(said.starts_with("could not keep the answer: ") && said.ends_with(&fix), "{said}");
    let small = Outputs::at(folder.path().join("small")).within(Duration::from_secs(60), 0);
    let said = small.keep("ada", new()).unwrap_err().to_string();
    assert_eq!(said, "could not keep the answer: it is larger than 0 MiB; ask for less");
    let full = std::io::Error::from_raw_os_error(28);
    let said = super::KeepError::new(&full, std::path::Path::new("/tmp"), 1).to_string();
    let expect =
        "could not keep the answer: No space left on device; free space in /tmp or ask for less";
    assert_eq!(said, expect);
}

#[test]
fn an_output_of_another_replica_is_read_while_another_request_copies_it() {
    let state: Arc<dyn SharedState> = Arc::new(MemoryShared::new(Clock::system()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let share = |outputs: Outputs| outputs.shared_by(Arc::clone(&state), runtime.handle().clone());
    let ((_one, here), (_two, there)) = (outputs(), outputs());
    let (here, there) = (share(here), share(there));
    let kept = text(&here, "all of it");
    let found = there.find(&kept.owner, &kept.handle).unwrap();
    assert_eq!(fs::read_to_string(&found.path).unwrap(), "all of it");
    // The files as another request leaves them in the middle of the same copy.
    fs::remove_file(described(&found.path)).unwrap();
    fs::write(&found.path, "all").unwrap();
    let found = there.find(&kept.owner, &kept.handle).unwrap();
    assert_eq!(fs::read_to_string(&found.path).unwrap(), "all of it");
    let names = fs::read_dir(found.path.parent().unwrap()).unwrap().count();
    assert_eq!(names, 2, "the output and its description");
}

#[test]
fn outputs_that_other_replicas_can_read_have_a_budget() {
    let state: Arc<dyn SharedState> = Arc::new(MemoryShared::new(Clock::system()));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let share = |outputs: Outputs| outputs.shared_by(Arc::clone(&state), runtime.handle().clone());
    let ((_one, here), (_two, there)) = (outputs(), outputs());
    let (here, there) = (share(here), share(there));
    let is_found = |kept: &StoredOutput| there.find(&kept.owner, &kept.handle).is_ok();
    let size = usize::try_from(MAX_BYTES).unwrap() - 10_000;
    let large = "x".repeat(size);
    let kept: Vec<_> = (0..34).map(|_| text(&here, &large)).collect();
    assert!(!is_found(kept.first().unwrap()), "the oldest copy is removed");
    assert!(is_found(kept.get(2).unwrap()) && is_found(kept.last().unwrap()));
    assert!(!is_found(&text(&here, &large.repeat(2))), "too large");
}
