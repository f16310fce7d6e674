//! The encoder against vectors that another implementation of the same model gives (`models/tiny.py`).
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::{fs, path::PathBuf};

use muster_search::encoder::{BuiltInModel, Model};
use serde_json::{Value, json};

const BUILT_IN: BuiltInModel = BuiltInModel {
    config: include_bytes!("tiny/config.json"),
    vocabulary: include_bytes!("tiny/vocab.txt"),
    weights: include_bytes!("tiny/model.safetensors"),
};
/// The reference computes with floating-point activations.
const TOLERANCE: f32 = 1e-3;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/tiny")
}

#[expect(clippy::cast_possible_truncation, reason = "written with six digits")]
fn reference() -> Vec<(String, Vec<f32>)> {
    let lines = fs::read_to_string(folder().join("vectors.jsonl")).unwrap();
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        let vector = line["vector"].as_array().unwrap().iter();
        let vector = vector.map(|one| one.as_f64().unwrap() as f32).collect();
        (line["text"].as_str().unwrap().to_owned(), vector)
    };
    lines.lines().map(line).collect()
}

#[track_caller]
fn alike(found: &[f32], expect: &[f32], what: &str) {
    assert_eq!(found.len(), expect.len(), "{what}");
    for (found, expect) in found.iter().zip(expect) {
        assert!((found - expect).abs() < TOLERANCE, "{what}: {found} instead of {expect}");
    }
}

#[test]
fn vectors_are_those_of_the_reference() {
    let reference = reference();
    let texts: Vec<&str> = reference.iter().map(|(text, _)| text.as_str()).collect();
    let built_in = Model::built_in(BUILT_IN).unwrap();
    let loaded = Model::load(&folder()).unwrap();
    let vectors = built_in.embed(&texts);
    assert!(vectors.len() == reference.len() && !vectors.is_empty());
    for (vector, (text, expect)) in vectors.iter().zip(&reference) {
        alike(vector, expect, text);
        // Neither the texts beside it nor where the weights lie changes a vector.
        assert_eq!(built_in.embed(&[text]), std::slice::from_ref(vector), "{text}");
        assert_eq!(loaded.embed(&[text]), std::slice::from_ref(vector), "{text}");
    }
}

#[test]
fn floating_point_weights_are_quantised() {
    let whole = tempfile::tempdir().unwrap();
    for file in ["config.json", "vocab.txt"] {
        fs::copy(folder().join(file), whole.path().join(file)).unwrap();
    }
    fs::write(whole.path().join("model.safetensors"), floating_point(BUILT_IN.weights)).unwrap();
    let model = Model::load(whole.path()).unwrap();
    let reference = reference();
    assert!(!reference.is_empty());
    for (text, expect) in reference {
        alike(&model.embed(&[&text])[0], &expect, &text);
    }
}

/// The same tensors, each multiplied by its scales.
fn floating_point(file: &[u8]) -> Vec<u8> {
    let start = 8 + usize::try_from(u64::from_le_bytes(*file.first_chunk().unwrap())).unwrap();
    let header: Value = serde_json::from_slice(&file[8..start]).unwrap();
    let bytes = |about: &Value| {
        let at = |number: usize| {
            start + usize::try_from(about["data_offsets"][number].as_u64().unwrap()).unwrap()
        };
        &file[at(0)..at(1)]
    };
    let (mut data, mut tensors) = (Vec::new(), serde_json::Map::new());
    for (name, about) in header.as_object().unwrap() {
        if name == "__metadata__" || name.ends_with(".scale") {
            continue;
        }
        let begin = data.len();
        match about["dtype"].as_str().unwrap() {
            "I8" => {
                let columns = usize::try_from(about["shape"][1].as_u64().unwrap()).unwrap();
                let scales = bytes(&header[format!("{name}.scale")]).chunks_exact(4);
                for (row, scale) in bytes(about).chunks_exact(columns).zip(scales) {
                    let scale = f32::from_le_bytes(*scale.first_chunk().unwrap());
                    for one in row {
                        data.extend((f32::from(one.cast_signed()) * scale).to_le_bytes());
                    }
                }
            }
            _ => data.extend(bytes(about)),
        }
        let about =
            json!({"dtype": "F32", "shape": about["shape"], "data_offsets": [begin, data.len()]});
        tensors.insert(name.clone(), about);
    }
    let header = serde_json::to_vec(&tensors).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat()
}

#[test]
fn broken_weights_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    write("config.json", BUILT_IN.config);
    write("vocab.txt", BUILT_IN.vocabulary);
    let rows = other_rows(BUILT_IN.weights);
    for (weights, expect) in [
        (&b"short"[..], "it is too short for its header"),
        (&[255; 64], "it is too short for its header"),
        (
            &BUILT_IN.weights[..BUILT_IN.weights.len() / 2],
            "is missing or has an unsupported type or shape",
        ),
        (
            &rows,
            "`encoder.layer.0.attention.self.query.weight` is missing or has an unsupported type or shape",
        ),
    ] {
        write("model.safetensors", weights);
        let error = Model::load(folder.path()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error}");
    }
}

#[test]
fn heads_that_do_not_divide_the_width_are_refused() {
    for heads in [0, 5] {
        let mut config: Value = serde_json::from_slice(BUILT_IN.config).unwrap();
        config["num_attention_heads"] = json!(heads);
        let config = serde_json::to_vec(&config).unwrap().leak();
        let error = Model::built_in(BuiltInModel { config, ..BUILT_IN }).unwrap_err().to_string();
        assert!(error.contains("must be a multiple of `num_attention_heads`"), "{error}");
    }
}

/// The same tensors, one of which has more rows than its layer has outputs.
fn other_rows(file: &[u8]) -> Vec<u8> {
    let start = 8 + usize::try_from(u64::from_le_bytes(*file.first_chunk().unwrap())).unwrap();
    let mut header: Value = serde_json::from_slice(&file[8..start]).unwrap();
    for rest in ["weight", "weight.scale"] {
        let wide = header[format!("encoder.layer.0.intermediate.dense.{rest}")].clone();
        header[format!("encoder.layer.0.attention.self.query.{rest}")] = wide;
    }
    let header = serde_json::to_vec(&header).unwrap();
    [&(header.len() as u64).to_le_bytes()[..], &header, &file[start..]].concat()
}
